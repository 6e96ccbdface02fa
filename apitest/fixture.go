package apitest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/engine"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Load creates the objects in YAML or JSON files, which may contain several documents and lists. It
// fails the test if it cannot create one, or if there is none. Patterns are those of fs.Glob; without patterns Load
// reads all .yaml, .yml and .json files below the root. It creates namespaces first, then
// everything else in the order of the file names.
//
// Files may be written by [Server.Dump]. Load ignores metadata that servers set, writes a status
// through the status subresource, puts namespaced objects without a namespace into "default",
// leaves existing namespaces alone, and sets the uids of owner references to those of the owners in
// this server.
func (s *Server) Load(fsys fs.FS, patterns ...string) {
	s.t.Helper()
	if err := s.load(fsys, patterns); err != nil {
		s.t.Fatalf("apitest: Load: %v", err)
	}
}

// fixture is an object of a file.
type fixture struct {
	from   string
	object map[string]any
	kind   *registry.Resource
}

func (s *Server) load(fsys fs.FS, patterns []string) error {
	names, err := yaml.Files(fsys, patterns)
	if err != nil {
		return err
	}
	var all []fixture
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		for i, document := range yaml.Documents(data) {
			found, err := s.fixtures(document)
			if err != nil {
				return fmt.Errorf("%s, document %d: %w", name, i+1, err)
			}
			for _, f := range found {
				f.from = fmt.Sprintf("%s, document %d", name, i+1)
				all = append(all, f)
			}
		}
	}
	if len(all) == 0 {
		return errors.New("the files have no object")
	}
	slices.SortStableFunc(all, func(a, b fixture) int { return turn(a.kind) - turn(b.kind) })
	for len(all) > 0 {
		var waiting []fixture // waiting for their owners
		var why error
		for _, f := range all {
			err := s.create(f)
			switch {
			case errors.As(err, new(noOwner)):
				waiting, why = append(waiting, f), errors.Join(why, fmt.Errorf("%s: %w", f.from, err))
			case err != nil:
				return fmt.Errorf("%s: %w", f.from, err)
			}
		}
		if len(waiting) == len(all) {
			return why
		}
		all = waiting
	}
	return nil
}

// noOwner means that the owner of an object does not exist yet.
type noOwner struct{ error }

// turn returns the position of a kind in the order of creation.
func turn(r *registry.Resource) int {
	if isNamespace(r) {
		return 0
	}
	return 1
}

func isNamespace(r *registry.Resource) bool {
	return r.GroupResource() == meta.GroupResource{Resource: "namespaces"}
}

// fixtures returns the objects of a document: one, those of a list, or none if it has only
// comments.
func (s *Server) fixtures(document []byte) ([]fixture, error) {
	data, err := yaml.ToJSON(document, len(document))
	if err != nil {
		return nil, err
	}
	v, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil || v == nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	items := []any{object}
	if kind, _ := object["kind"].(string); strings.HasSuffix(kind, "List") && object["items"] != nil {
		items, _ = object["items"].([]any)
	}
	var out []fixture
	for _, item := range items {
		object, _ := item.(map[string]any)
		resource, err := s.resourceOf(object)
		if err != nil {
			return nil, err
		}
		out = append(out, fixture{object: object, kind: resource})
	}
	return out, nil
}

// resourceOf finds the resource of an object, or of a reference to one.
func (s *Server) resourceOf(object map[string]any) (*registry.Resource, error) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	for _, served := range s.API.Engine().(*engine.Engine).Set().All() {
		if r := served.Resource; r.Names.Kind == kind && r.APIVersion() == apiVersion {
			return r, nil
		}
	}
	return nil, fmt.Errorf("kind %q of apiVersion %q is not served", kind, apiVersion)
}

// loading returns the context with the user who creates the objects.
func loading() context.Context {
	return authn.WithUser(context.Background(), authn.User{Name: "apitest", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}})
}

func (s *Server) create(f fixture) error {
	metadata, _ := f.object["metadata"].(map[string]any)
	if metadata == nil {
		return errors.New("the object has no metadata")
	}
	for _, name := range append(meta.MetadataFields(meta.Bookkeeping), meta.MetadataFields(meta.SetByServer)...) {
		delete(metadata, name)
	}
	t := registry.Target{Resource: f.kind.GroupVersionResource()}
	if !f.kind.ClusterScoped {
		if t.Namespace, _ = metadata["namespace"].(string); t.Namespace == "" {
			t.Namespace = "default"
		}
	}
	if err := s.adopt(metadata, t.Namespace); err != nil {
		return err
	}
	body, err := json.AppendTree(nil, f.object)
	if err != nil {
		return err
	}
	engine, options := s.API.Engine(), registry.WriteOptions{FieldManager: "apitest", FieldValidation: meta.FieldValidationStrict}
	made, err := engine.Create(loading(), t, body, options)
	if isNamespace(f.kind) && status.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.object["status"] == nil || !slices.ContainsFunc(f.kind.Subresources, func(r registry.Subresource) bool { return r.Name == "status" }) {
		return nil
	}
	t.Name, t.Subresource = made.Entry.Name(), "status"
	metadata["name"] = t.Name
	if body, err = json.AppendTree(nil, f.object); err != nil {
		return err
	}
	if _, err = engine.Update(loading(), t, body, options); err != nil {
		return fmt.Errorf("its status: %w", err)
	}
	return nil
}

// adopt completes the owner references of an object.
func (s *Server) adopt(metadata map[string]any, namespace string) error {
	references, _ := metadata["ownerReferences"].([]any)
	for _, r := range references {
		reference, _ := r.(map[string]any)
		if reference == nil {
			continue
		}
		resource, err := s.resourceOf(reference)
		if err != nil {
			return fmt.Errorf("an owner: %w", err)
		}
		name, _ := reference["name"].(string)
		t := registry.Target{Resource: resource.GroupVersionResource(), Namespace: namespace, Name: name}
		if resource.ClusterScoped {
			t.Namespace = ""
		}
		owner, err := s.API.Engine().Get(loading(), t, registry.ListRequest{})
		if err != nil {
			return noOwner{fmt.Errorf("an owner: %w", err)}
		}
		reference["uid"] = string(owner.UID())
	}
	return nil
}

// Dump returns all objects as YAML, ordered by group, kind, namespace and name, without managed
// fields.
func (s *Server) Dump() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, served := range s.API.Engine().(*engine.Engine).Set().All() {
		if served.Cache == nil || seen[served.Resource.StorageName] {
			continue
		}
		seen[served.Resource.StorageName] = true
		served.Cache.AwaitOwn(context.Background())
		for entry := range served.Cache.Snapshot().Ascend("", "") {
			shown, err := served.Show(context.Background(), entry)
			if err != nil {
				fmt.Fprintf(&b, "# %s: %v\n---\n", entry.Key(), err)
				continue
			}
			b.WriteString(readable(shown.AppendJSON(nil)))
			b.WriteString("---\n")
		}
	}
	return strings.TrimSuffix(b.String(), "---\n")
}
