package layers

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A tree is a module as its files describe it: nothing is built, so the rules are
// checked for every operating system and build tag at once, in a second, and also
// in trees that do not compile.
type tree struct {
	module     string       // the path in the root go.mod
	goMod      []string     // the lines of the root go.mod
	allmodules []string     // the lines of allmodules
	packages   []*pkg       // of the root module, by directory
	nested     []*submodule // by directory
	fset       *token.FileSet
	excused    map[string]string // package variables that may hold state, see noState
}

// A submodule is a directory below the root with a go.mod of its own.
type submodule struct {
	dir      string
	goMod    []string // the lines of its go.mod
	packages []*pkg
}

type pkg struct {
	dir   string // from the root of the tree; "." for the root package
	files []*file
}

// sources returns the files that a program linking the package gets.
func (p *pkg) sources() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test })
}

type file struct {
	name    string // from the root of the tree
	test    bool
	syntax  *ast.File
	imports []string
}

// readTree reads the Go files of a module and of the modules nested in it.
// It leaves out what the go command leaves out: testdata, names beginning with "." or "_".
func readTree(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	var err error
	if t.goMod, err = lines(fsys, "go.mod"); err != nil {
		return nil, err
	}
	if t.allmodules, err = lines(fsys, "allmodules"); err != nil {
		return nil, err
	}
	for _, l := range t.goMod {
		if m, ok := strings.CutPrefix(l, "module "); ok {
			t.module = strings.TrimSpace(m)
		}
	}
	root := &submodule{dir: "."}
	if err := t.readDir(fsys, ".", root); err != nil {
		return nil, err
	}
	t.packages = root.packages
	return t, nil
}

func (t *tree) readDir(fsys fs.FS, dir string, in *submodule) error {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return err
	}
	if dir != "." && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "go.mod" }) {
		in = &submodule{dir: dir}
		if in.goMod, err = lines(fsys, path.Join(dir, "go.mod")); err != nil {
			return err
		}
		t.nested = append(t.nested, in)
	}
	p := &pkg{dir: dir}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Name()[0] == '.' || e.Name()[0] == '_' || e.Name() == "testdata":
		case e.IsDir():
			if err := t.readDir(fsys, name, in); err != nil {
				return err
			}
		case strings.HasSuffix(name, ".go"):
			f, err := t.readFile(fsys, name)
			if err != nil {
				return err
			}
			p.files = append(p.files, f)
		}
	}
	if len(p.files) > 0 {
		in.packages = append(in.packages, p)
		slices.SortFunc(in.packages, func(a, b *pkg) int { return cmp.Compare(a.dir, b.dir) })
	}
	return nil
}

func (t *tree) readFile(fsys fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	syntax, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, test: strings.HasSuffix(name, "_test.go"), syntax: syntax}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// ours returns the directory of an imported package of the root module or of one
// nested in it.
func (t *tree) ours(imported string) (dir string, ok bool) {
	if imported == t.module {
		return ".", true
	}
	return strings.CutPrefix(imported, t.module+"/")
}

// declared returns the modules that allmodules lists, and whether each is released.
func (t *tree) declared() (map[string]bool, error) {
	released := map[string]bool{}
	for _, l := range t.allmodules {
		l, _, _ = strings.Cut(l, "#")
		fields := strings.Fields(l)
		switch {
		case len(fields) == 0:
		case len(fields) < 3 || fields[1] != "released" && fields[1] != "internal":
			return nil, fmt.Errorf("allmodules: %q: want a directory, \"released\" or \"internal\", and why the module exists", l)
		default:
			released[fields[0]] = fields[1] == "released"
		}
	}
	return released, nil
}

// standard reports whether a package belongs to the standard library: only there
// does a path begin with a name that is no host.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// within reports whether a package belongs to a module.
func within(imported, module string) bool {
	return imported == module || strings.HasPrefix(imported, module+"/")
}

func lines(fsys fs.FS, name string) ([]string, error) {
	data, err := fs.ReadFile(fsys, name)
	return strings.Split(string(data), "\n"), err
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
