package layers

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A rule looks at a tree and returns one line for each place where it is broken:
// the file or package, what is wrong, and what to do.
type rule struct {
	name  string
	check func(*tree) []string
}

var rules = []rule{
	{"each package has a place", placed},
	{"imports go downwards", downwards},
	{"one dependency, one door", oneDoor},
	{"no Kubernetes modules in the core", noKubernetes},
	{"encoding/json stays out", noStandardJSON},
	{"each package has its first page", firstPages},
	{"files are named after nouns", nouns},
	{"codes of requirements stand at the end", codesAtTheEnd},
	{"nothing happens before main", noInit},
	{"files get their names after a sync", syncedNames},
	{"package variables do not change", noState},
	{"each module is listed", modulesListed},
	{"released modules use public packages", publicOnly},
	{"modules agree on versions", sameVersions},
}

func placed(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		if _, _, ok := place(p.dir); !ok {
			out = append(out, fmt.Sprintf("%s: a package without a floor: add it to the table in internal/layers/house_test.go with a reason, or prefer another file to another package", p.dir))
		}
	}
	return out
}

// downwards judges what a package's own files import. Test files may import any
// package of ours: the compiler refuses cycles, and an example of a low floor often
// needs something from a higher one.
func downwards(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		for _, f := range p.sources() {
			for _, imported := range f.imports {
				if why := t.refuse(p.dir, imported); why != "" {
					out = append(out, f.name+": "+why)
				}
			}
		}
	}
	return out
}

// refuse says why the package in dir must not import the other, or "".
func (t *tree) refuse(dir, imported string) string {
	floor, from, ok := place(dir)
	if !ok {
		return "" // placed says so
	}
	target, ours := t.ours(imported)
	if !ours {
		target = imported
	}
	if why, listed := reason(never, dir, target); listed {
		return fmt.Sprintf("%s imports %s: %s", dir, target, why)
	}
	if !ours {
		if from.std && !standard(imported) {
			return fmt.Sprintf("%s imports %s: this package uses the standard library alone; ask through a small interface and let a higher floor connect it", dir, imported)
		}
		return ""
	}
	below, to, ok := place(target)
	_, excepted := reason(sameFloor, dir, target)
	switch {
	case !ok:
		return ""
	case to.tests && !from.tests:
		return fmt.Sprintf("%s imports %s, which is for tests", dir, target)
	case to.chosen && floor < len(house)-1:
		return fmt.Sprintf("%s imports the backend %s: take a storage.Backend; the program chooses which", dir, target)
	case below > floor:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): imports go downwards; move the code, or take an interface that a higher floor fills", dir, floor, target, below)
	case below == floor && !excepted:
		return fmt.Sprintf("%s imports %s on the same floor %d: move one of them, join them, or list the edge in sameFloor with a reason", dir, target, floor)
	}
	return ""
}

func oneDoor(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		for _, f := range p.files {
			for _, imported := range f.imports {
				if _, ours := t.ours(imported); ours || standard(imported) {
					continue
				}
				if why := refuseModule(p.dir, imported, f.test); why != "" {
					out = append(out, f.name+": "+why)
				}
			}
		}
	}
	return out
}

// refuseModule says why a file must not import a third-party package, or "".
func refuseModule(dir, imported string, test bool) string {
	in := func(module string) bool { return within(imported, module) }
	if slices.ContainsFunc(free, in) {
		return ""
	}
	if slices.ContainsFunc(testOnly, in) {
		if _, r, _ := place(dir); test || r.tests {
			return ""
		}
		return fmt.Sprintf("imports %s outside of tests", imported)
	}
	i := slices.IndexFunc(doors, func(d door) bool { return in(d.module) })
	switch {
	case i < 0:
		return fmt.Sprintf("imports %s, which has no door: do we need it? If so, list the one package that imports it in doors, with a reason", imported)
	case doors[i].room != dir:
		return fmt.Sprintf("imports %s, whose door is %s (%s): use that package, or ask through an interface and let the roof connect it", imported, doors[i].room, doors[i].why)
	}
	return ""
}

// kubernetes reports whether a module path belongs to what the core stays free of.
func kubernetes(module string) bool {
	if within(module, "k8s.io") {
		return true
	}
	return within(module, "sigs.k8s.io") && !slices.ContainsFunc(leaves, func(leaf string) bool { return within(module, leaf) })
}

func noKubernetes(t *tree) []string {
	const advice = "only nested modules (examples/kube, internal/interop) may use it"
	var out []string
	for n, l := range t.goMod {
		l, _, _ = strings.Cut(l, "//")
		if fields := strings.Fields(l); slices.ContainsFunc(fields, kubernetes) {
			out = append(out, fmt.Sprintf("go.mod:%d: %s: %s", n+1, strings.Join(fields, " "), advice))
		}
	}
	for _, p := range t.packages {
		for _, f := range p.files {
			for _, imported := range f.imports {
				if kubernetes(imported) {
					out = append(out, fmt.Sprintf("%s: imports %s: %s", f.name, imported, advice))
				}
			}
		}
	}
	return out
}

func noStandardJSON(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		for _, f := range p.sources() {
			if p.dir != "internal/json" && slices.Contains(f.imports, "encoding/json") {
				out = append(out, f.name+": imports encoding/json, which folds the case of names, keeps the last duplicate and rounds integers: use internal/json")
			}
		}
	}
	return out
}

// firstPages asks for the two files a reader opens first.
func firstPages(t *tree) []string {
	var out []string
	for _, p := range t.packages {
		sources := p.sources()
		if len(sources) == 0 {
			continue
		}
		has := func(name string) bool {
			return slices.ContainsFunc(p.files, func(f *file) bool { return path.Base(f.name) == name })
		}
		_, r, _ := place(p.dir)
		program := sources[0].syntax.Name.Name == "main"
		code := len(sources) > 1 || !has("doc.go")
		if !has("doc.go") && !program {
			out = append(out, p.dir+": no doc.go: say what the package is for, what it is not for, and which neighbour to read next")
		}
		if !has("example_test.go") && code && !program && !r.tests && !strings.HasPrefix(p.dir, "internal/") {
			out = append(out, p.dir+": no example_test.go: examples are the first documentation")
		}
	}
	return out
}

func nouns(t *tree) []string {
	empty := []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "base", "shared"}
	var out []string
	for _, p := range t.packages {
		if slices.Contains(empty, path.Base(p.dir)) {
			out = append(out, p.dir+": name the package after what it provides")
		}
		for _, f := range p.files {
			name := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.name), ".go"), "_test")
			if slices.Contains(empty, name) {
				out = append(out, f.name+": name the file after the noun inside")
			}
		}
	}
	return out
}

// modulesListed keeps allmodules true, since make and the checks walk that file.
func modulesListed(t *tree) []string {
	released, err := t.declared()
	if err != nil {
		return []string{err.Error()}
	}
	found := map[string]bool{".": true}
	for _, m := range t.nested {
		found[m.dir] = true
	}
	var out []string
	for _, dir := range sorted(found) {
		if _, listed := released[dir]; !listed {
			out = append(out, fmt.Sprintf("%s: a module that allmodules does not list, so nothing tests it", dir))
		}
	}
	for _, dir := range sorted(released) {
		if !found[dir] {
			out = append(out, fmt.Sprintf("allmodules: lists %s, which is no module", dir))
		}
	}
	return out
}

// publicOnly: a nested module has the root's path as a prefix, so the compiler would
// let it import internal packages; a released one would then break with each of our
// patch releases.
func publicOnly(t *tree) []string {
	released, err := t.declared()
	if err != nil {
		return nil // modulesListed says so
	}
	var out []string
	for _, m := range t.nested {
		if !released[m.dir] {
			continue
		}
		for _, p := range m.packages {
			for _, f := range p.sources() {
				for _, imported := range f.imports {
					if dir, ours := t.ours(imported); ours && !within(dir, m.dir) && strings.Contains("/"+dir+"/", "/internal/") {
						out = append(out, fmt.Sprintf("%s: %s is released apart from the core and imports %s: use public packages", f.name, m.dir, dir))
					}
				}
			}
		}
	}
	return out
}

// sameVersions: what two modules need in different versions is compiled twice, and so is
// everything that imports it. Where that reaches down to the packages below Kubernetes'
// client, the checks of all modules take twice as long.
func sameVersions(t *tree) []string {
	type needed struct{ apart, path string }
	first := map[needed][2]string{} // the version, and which module was read first
	var out []string
	agree := func(dir string, goMod []string) {
		for _, l := range goMod {
			l, _, _ = strings.Cut(l, "//")
			fields := strings.Fields(strings.TrimPrefix(l, "require "))
			if len(fields) != 2 || !strings.HasPrefix(fields[1], "v") || slices.Contains(pinned, pin{dir, fields[0]}) {
				continue
			}
			key := needed{apart[dir], fields[0]}
			if was, seen := first[key]; !seen {
				first[key] = [2]string{fields[1], dir}
			} else if was[0] != fields[1] {
				out = append(out, fmt.Sprintf("%s/go.mod: needs %s %s, and %s/go.mod %s: take the newer one in both", dir, fields[0], fields[1], was[1], was[0]))
			}
		}
	}
	agree(".", t.goMod)
	for _, m := range t.nested {
		agree(m.dir, m.goMod)
	}
	return out
}
