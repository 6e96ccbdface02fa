package layers

import (
	"fmt"
	"go/ast"
	"slices"
)

// syncing are the packages that may name files: they sync them first.
var syncing = []string{"internal/files", "storage/bbolt"}

// syncedNames rejects calls that make a file appear under its name, or fill it there, without a sync.
// After a power cut, such a file may be there and empty.
func syncedNames(t *tree) []string {
	calls := []string{"os.Rename", "os.WriteFile", "os.Create"}
	var out []string
	for _, p := range t.packages {
		if slices.Contains(syncing, p.dir) {
			continue
		}
		for _, f := range p.sources() {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && slices.Contains(calls, selector(call.Fun)) {
					out = append(out, fmt.Sprintf("%s: %s without a sync: use Write or Rename of internal/files",
						t.fset.Position(call.Pos()), selector(call.Fun)))
				}
				return true
			})
		}
	}
	return out
}
