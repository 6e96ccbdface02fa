package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// apiModule is where the Go types of objects are.
const apiModule = "k8s.io/api/"

// A source is what the source of k8s.io/api says beyond the types that are linked: the constants of
// a type, and which fields there are in that version. Types are named like core/v1.PodSpec.
type source struct {
	constants map[string][]string
	fields    map[string][]string // JSON names, without those of embedded structs
}

// readSource reads types.go of each group and version.
func readSource(dir fs.FS) (*source, error) {
	files, err := fs.Glob(dir, "*/*/types.go")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no group/version/types.go")
	}
	s := &source{constants: map[string][]string{}, fields: map[string][]string{}}
	for _, name := range files {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.read(path.Dir(name), g)
			}
		}
	}
	return s, nil
}

// read takes note of constants and structs.
func (s *source) read(version string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			of, typed := spec.Type.(*ast.Ident)
			if d.Tok != token.CONST || !typed {
				continue
			}
			for _, value := range spec.Values {
				s.constant(version+"."+of.Name, value)
			}
		case *ast.TypeSpec:
			if of, ok := spec.Type.(*ast.StructType); ok {
				s.structure(version+"."+spec.Name.Name, of)
			}
		}
	}
}

// constant takes note of a constant of a string type.
func (s *source) constant(name string, value ast.Expr) {
	literal, ok := value.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(literal.Value)
	if err == nil && !slices.Contains(s.constants[name], text) {
		s.constants[name] = append(s.constants[name], text)
	}
}

// structure takes note of the fields of a struct.
func (s *source) structure(name string, of *ast.StructType) {
	fields := []string{}
	for _, f := range of.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	s.fields[name] = fields
}

// values returns the constants of a type.
func (s *source) values(t reflect.Type) []string {
	return s.constants[sourceName(t)]
}

// has reports whether a struct has a field in that version. Types of other modules have all fields.
func (s *source) has(t reflect.Type, field string) bool {
	fields, found := s.fields[sourceName(t)]
	return !found || slices.Contains(fields, field)
}

func sourceName(t reflect.Type) string {
	version, ok := strings.CutPrefix(t.PkgPath(), apiModule)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s.%s", version, t.Name())
}
