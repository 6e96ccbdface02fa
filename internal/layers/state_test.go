package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strconv"
	"strings"
)

func noInit(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		for _, f := range p.sources() {
			for _, d := range f.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					out = append(out, fmt.Sprintf("%s: init at work on import: let the caller ask for it", t.fset.Position(fn.Pos())))
				}
			}
		}
	}
	return out
}

// noState looks for package variables that hold state: two servers in one process
// would share it. A variable passes when it cannot change or nothing changes it:
//
//   - it is not a channel, a lock, a pool, nor a pointer to something made here,
//     and no field or element of it is;
//   - no code of the package assigns to it or to a part of it, or takes its address;
//   - if it is exported, its type is not a map, slice or function, which importers
//     could change.
//
// Sentinel errors and regular expressions pass. The judgement is by syntax and by
// the names of one package; what another function does with a map it is given
// stays unseen.
func noState(t *tree) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range t.packages {
		v := variables(t, p)
		for _, name := range v.order {
			why := v.judge(name)
			if why == "" {
				continue
			}
			key := p.dir + "." + name.Name
			seen[key] = true
			if _, excused := t.excused[key]; !excused {
				out = append(out, fmt.Sprintf("%s: package variable %s %s: give it an owner, or list %q in state with a reason", t.fset.Position(name.Pos()), name.Name, why, key))
			}
		}
	}
	for _, key := range sorted(t.excused) {
		if !seen[key] {
			out = append(out, fmt.Sprintf("state lists %q, which needs no excuse: take it out", key))
		}
	}
	return out
}

// vars is what one package declares outside of functions and does to it.
type vars struct {
	order  []*ast.Ident // declared variables, in file order
	spec   map[*ast.Ident]*ast.ValueSpec
	types  map[string]ast.Expr // the package's own types by name
	info   *types.Info
	writes map[types.Object]string // how the package's code changes a variable
}

func variables(t *tree, p *pkg) *vars {
	v := &vars{
		spec:   map[*ast.Ident]*ast.ValueSpec{},
		types:  map[string]ast.Expr{},
		info:   &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}},
		writes: map[types.Object]string{},
	}
	var files []*ast.File
	for _, f := range p.sources() {
		files = append(files, f.syntax)
		v.declare(f.syntax)
	}
	// Imports are left unresolved: only the identity of names matters here, and
	// the type checker goes on after errors.
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = conf.Check(p.dir, t.fset, files, v.info)
	for _, f := range files {
		ast.Inspect(f, v.noteWrites)
	}
	return v
}

type noImports struct{}

func (noImports) Import(imported string) (*types.Package, error) {
	p := types.NewPackage(imported, path.Base(imported))
	p.MarkComplete()
	return p, nil
}

func (v *vars) declare(f *ast.File) {
	for _, d := range f.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gen.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				v.types[s.Name.Name] = s.Type
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if gen.Tok == token.VAR && name.Name != "_" {
						v.order = append(v.order, name)
						v.spec[name] = s
					}
				}
			}
		}
	}
}

// noteWrites records statements that change a variable or make it reachable for change.
func (v *vars) noteWrites(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			v.note(left, "is assigned to")
		}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			v.note(n.Key, "is assigned to")
			v.note(n.Value, "is assigned to")
		}
	case *ast.IncDecStmt:
		v.note(n.X, "is counted in")
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			v.note(n.X, "has its address taken")
		}
	case *ast.CallExpr:
		if len(n.Args) > 0 && changesArgument(n.Fun) {
			v.note(n.Args[0], "is changed by a call")
		}
	}
	return true
}

// note records a change to the variable at the root of an expression like x.f[i].
func (v *vars) note(e ast.Expr, how string) {
	for e != nil {
		switch x := e.(type) {
		case *ast.Ident:
			if obj := v.info.Uses[x]; obj != nil {
				v.writes[obj] = how
			}
			return
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return
		}
	}
}

func changesArgument(fun ast.Expr) bool {
	switch selector(fun) {
	case "delete", "clear", "copy", "slices.Reverse", "maps.Copy", "maps.DeleteFunc", "rand.Shuffle":
		return true
	}
	return strings.HasPrefix(selector(fun), "sort.") || strings.HasPrefix(selector(fun), "slices.Sort")
}

func (v *vars) judge(name *ast.Ident) string {
	if how := v.writes[v.info.Defs[name]]; how != "" {
		return how
	}
	spec := v.spec[name]
	typ := spec.Type
	var value ast.Expr
	for i, n := range spec.Names {
		if n == name && i < len(spec.Values) {
			value = spec.Values[i]
		}
	}
	switch x := value.(type) {
	case *ast.CompositeLit:
		typ = x.Type
	case *ast.FuncLit:
		typ = x.Type
	case *ast.UnaryExpr:
		if x.Op == token.AND {
			return "points to something made here"
		}
	case *ast.CallExpr:
		switch called := selector(x.Fun); {
		case called == "make":
			typ = x.Args[0]
		case called == "new":
			return "points to something made here"
		case strings.HasPrefix(called, "sync.") || strings.HasPrefix(called, "atomic."):
			return "is a " + called
		}
	}
	return v.judgeType(typ, name.IsExported(), 0)
}

// judgeType says what about a type can hold state. The depth bounds recursive types.
func (v *vars) judgeType(e ast.Expr, exported bool, depth int) string {
	if depth > 8 {
		return ""
	}
	switch x := e.(type) {
	case *ast.ChanType:
		return "is or holds a channel"
	case *ast.MapType:
		if exported {
			return "is an exported map"
		}
	case *ast.FuncType:
		if exported {
			return "is an exported function value"
		}
	case *ast.ArrayType:
		if exported && x.Len == nil {
			return "is an exported slice"
		}
		return v.judgeType(x.Elt, false, depth+1)
	case *ast.StructType:
		for _, field := range x.Fields.List {
			if why := v.judgeType(field.Type, false, depth+1); why != "" {
				return why
			}
		}
	case *ast.Ident:
		if own, ok := v.types[x.Name]; ok {
			return v.judgeType(own, exported, depth+1)
		}
	case *ast.SelectorExpr, *ast.IndexExpr:
		if s := selector(x); strings.HasPrefix(s, "sync.") || strings.HasPrefix(s, "atomic.") {
			return "is or holds a " + s
		}
	}
	return ""
}

// selector spells an expression like pkg.Name, or pkg.Name[T] without its arguments.
func selector(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return selector(x.X) + "." + x.Sel.Name
	case *ast.IndexExpr:
		return selector(x.X)
	case *ast.BasicLit:
		return strconv.Quote(x.Value)
	}
	return ""
}
