package layers

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// code matches what means nothing to a user: the code of a requirement or a security vector, or a rule
// of the design. UTF-16 is none.
var code = regexp.MustCompile(`\b(?:[A-Z]{2,9}-[0-9]{2}|UTF-[0-9]+|[Ss]ecurity vectors?|design rules?)\b`)

// codesAtTheEnd keeps codes out of the sentences that users read. They may follow in a last line:
// "Source: LIST-27."
func codesAtTheEnd(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		_, r, _ := place(p.dir)
		if r.tests || p.dir == "internal" || strings.HasPrefix(p.dir, "internal/") || strings.Contains(p.dir, "/internal/") {
			continue
		}
		for _, f := range p.sources() {
			if f.syntax.Name.Name == "main" {
				continue
			}
			for _, doc := range publicDocs(f.syntax) {
				text, _, _ := strings.Cut(doc.Text(), "Source:")
				for _, found := range code.FindAllString(text, -1) {
					if !strings.HasPrefix(found, "UTF-") {
						out = append(out, fmt.Sprintf("%s: %q in a sentence for users: leave it out, or end the comment with a line \"Source: …\"", t.fset.Position(doc.Pos()), found))
					}
				}
			}
		}
	}
	return out
}

// publicDocs returns the comments of a file that users read.
func publicDocs(f *ast.File) (docs []*ast.CommentGroup) {
	docs = append(docs, f.Doc)
	add := func(doc *ast.CommentGroup, names ...*ast.Ident) bool {
		for _, n := range names {
			if n.IsExported() {
				docs = append(docs, doc)
				return true
			}
		}
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil || ast.IsExported(receiver(n.Recv.List[0].Type)) {
				add(n.Doc, n.Name)
			}
			return false
		case *ast.GenDecl:
			for _, s := range n.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && add(n.Doc, s.Name) {
					break
				}
			}
		case *ast.TypeSpec:
			return add(n.Doc, n.Name)
		case *ast.ValueSpec:
			add(n.Doc, n.Names...)
			return false
		case *ast.Field:
			add(n.Doc, n.Names...)
		}
		return true
	})
	return docs
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
