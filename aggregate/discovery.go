package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

type resource = discovery.Resource

// What a description of a group version may have.
const (
	maxResourceBytes = 8 << 20
	maxResources     = 20_000  // adapters of metrics describe each metric as one
	maxParts         = 400_000 // of all descriptions: names and values
	fewResources     = 2000    // which any back end may have
	maxListed        = 200_000 // of all back ends that have more
	maxWords         = 64
	maxWord          = 253
)

// readResources asks the back end what it serves.
func (b *backend) readResources(ctx context.Context) ([]resource, error) {
	gv := b.service.groupVersion()
	path := documentPath(gv)
	var out []resource
	err := b.fetch(ctx, question{path: path, as: prober(), limit: maxResourceBytes}, b.of.lists, func(got *answer) (err error) {
		if got.code != http.StatusOK {
			return b.badStatus(path, got.code)
		}
		out, err = resourcesOf(gv, got.body)
		return err
	})
	return out, err
}

// resourcesOf reads an APIResourceList.
func resourcesOf(gv meta.GroupVersion, body []byte) ([]resource, error) {
	// What is read takes a hundred times as much as the shortest text that says it, so it is counted before.
	if bytes.Count(body, []byte("{")) > maxResources+1 || bytes.Count(body, []byte(",")) > maxParts {
		return nil, fmt.Errorf("the answer has more than %d resources, or too much about them", maxResources)
	}
	var list meta.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, errors.New("the answer is no APIResourceList")
	}
	switch {
	case list.Kind != "APIResourceList":
		return nil, errors.New("the answer is no APIResourceList")
	case list.GroupVersion != gv.String():
		return nil, fmt.Errorf("the answer is about %q and not about %q", cut(list.GroupVersion), gv)
	}
	out := []resource{} // which is not nil: a server may have none, and it has said so
	at := map[string]int{}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if err := checkResource(r); err != nil {
			return nil, err
		}
		if strings.Contains(r.Name, "/") {
			continue
		}
		at[r.Name] = len(out)
		out = append(out, resource{
			GVK: kindOf(gv, r), Plural: r.Name, Singular: r.SingularName, Namespaced: r.Namespaced, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories, StorageHash: r.StorageVersionHash,
		})
	}
	for i := range list.APIResources { // a server may list them before what they belong to
		r := &list.APIResources[i]
		parent, name, below := strings.Cut(r.Name, "/")
		if !below {
			continue
		}
		j, known := at[parent]
		if !known { // a subresource of something that cannot be listed, such as a scale alone
			j, at[parent] = len(out), len(out)
			out = append(out, resource{GVK: kindOf(gv, r), Plural: parent, Namespaced: r.Namespaced})
		}
		out[j].Subresources = append(out[j].Subresources, discovery.Subresource{Name: name, Kind: kindOf(gv, r), Verbs: r.Verbs})
	}
	return out, nil
}

// kindOf is the kind of a resource in the description of a group version, which may be one of another.
func kindOf(gv meta.GroupVersion, r *meta.APIResource) meta.GroupVersionKind {
	if r.Version != "" {
		return meta.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	}
	return meta.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.Kind}
}

// checkResource rejects descriptions that clients could stumble over.
func checkResource(r *meta.APIResource) error {
	parent, name, below := strings.Cut(r.Name, "/")
	if parent == "" || below && name == "" || meta.CheckPathSegment(parent) != "" || below && meta.CheckPathSegment(name) != "" {
		return fmt.Errorf("the answer has a resource with the name %q", cut(r.Name))
	}
	lists := [...][]string{{r.Name, r.SingularName, r.Kind, r.Group, r.Version, r.StorageVersionHash}, r.Verbs, r.ShortNames, r.Categories}
	for _, list := range lists {
		if len(list) > maxWords {
			return fmt.Errorf("the resource %q has too many verbs, short names or categories", cut(r.Name))
		}
		for _, word := range list {
			if len(word) > maxWord || strings.ContainsAny(word, "\n\r\x1b\x00") {
				return fmt.Errorf("the resource %q has a word that is too long or cannot be shown", cut(r.Name))
			}
		}
	}
	return nil
}

// cut shortens a text of a back end.
func cut(s string) string { return s[:min(len(s), 128)] }

func sameResources(a, b []resource) bool { return reflect.DeepEqual(a, b) }
