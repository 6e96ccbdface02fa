package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// namespaces are the namespaces of boats. The last one is deleted and created again all the time.
var namespaces = []string{"a", "b", "b-b", "passing"}

const passing = "passing"

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
	patchType = "application/json-patch+json"
)

func boats(namespace string) string {
	if namespace == "" {
		return "/apis/" + group + "/v1/" + collection
	}
	return "/apis/" + group + "/v1/namespaces/" + namespace + "/" + collection
}

// writer makes random changes of every kind.
type writer struct {
	*run
	random *rand.Rand
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// labels are those that the watchers select, and one that none selects.
func (w *writer) labels() string {
	var out []string
	if app := pick(w.random, "", "x", "y", "z"); app != "" {
		out = append(out, fmt.Sprintf(`"app":%q`, app))
	}
	if w.random.IntN(2) == 0 {
		out = append(out, fmt.Sprintf(`"tier":%q`, pick(w.random, "front", "back")))
	}
	return fmt.Sprintf(`{%s}`, strings.Join(append(out, `"fleet":"home"`), ","))
}

func (w *writer) spec() string {
	return fmt.Sprintf(`{"owner":%q,"size":%d,"padding":%q}`, pick(w.random, "ann", "bob", ""), w.random.IntN(1000),
		strings.Repeat("=", w.random.IntN(400)))
}

func (w *writer) body(name, metadata string) string {
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Boat","metadata":{"name":%q,"labels":%s%s},"spec":%s}`,
		group, name, w.labels(), metadata, w.spec())
}

// all writes until the run is over.
func (w *writer) all(ctx context.Context, number int) error {
	if number == 0 {
		return w.pass(ctx)
	}
	for !w.closing() && ctx.Err() == nil {
		if err := w.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// write tries to make one change.
func (w *writer) write(ctx context.Context) error {
	in, name := namespaces[min(w.random.IntN(9)/2, 3)], fmt.Sprint("n", w.random.IntN(30))
	one := boats(in) + "/" + name
	var code int
	var err error
	switch n := w.random.IntN(100); {
	case n < 25:
		code, err = w.host.write(ctx, http.MethodPost, boats(in), jsonType, w.body(name, ""))
	case n < 50:
		code, err = w.host.write(ctx, http.MethodPut, one, jsonType, w.body(name, ""))
	case n < 70:
		// The merge removes "app" if labels does not name it.
		labels := strings.Replace(w.labels(), `{`, `{"app":null,"tier":null,`, 1)
		code, err = w.host.write(ctx, http.MethodPatch, one, mergeType, fmt.Sprintf(`{"metadata":{"labels":%s}}`, last(labels)))
	case n < 75:
		code, err = w.host.write(ctx, http.MethodPatch, one, patchType, fmt.Sprintf(`[{"op":"add","path":"/spec/size","value":%d}]`, w.random.IntN(1000)))
	case n < 78:
		code, err = w.host.write(ctx, http.MethodPatch, one, mergeType, `{}`) // no change, no event
	case n < 81:
		code, err = w.host.write(ctx, http.MethodPatch, one, mergeType, fmt.Sprintf(`{"spec":{"owner":%q}}`, pick(w.random, "ann", "bob", "cleo")))
	case n < 84:
		code, err = w.host.write(ctx, http.MethodPost, boats(in), jsonType, w.body(name, `,"finalizers":["soak.dev/wait"]`))
	case n < 88:
		code, err = w.host.write(ctx, http.MethodPatch, one, mergeType, `{"metadata":{"finalizers":null}}`)
	case n < 99:
		code, err = w.host.write(ctx, http.MethodDelete, one, "", "")
	default:
		code, err = w.host.write(ctx, http.MethodDelete, boats(in)+"?labelSelector=app%3D"+pick(w.random, "x", "y", "z"), "", "")
	}
	if err == nil && !slices.Contains([]int{200, 201, 202, 404, 409, 422}, code) && (in != passing || code != 403) {
		err = fmt.Errorf("a write to %s is answered with %d", one, code)
	}
	return err
}

// last keeps the last of duplicate members of a flat object.
func last(object string) string {
	seen, out := map[string]bool{}, []string{}
	for _, member := range slices.Backward(strings.Split(strings.Trim(object, "{}"), ",")) {
		name, _, _ := strings.Cut(member, ":")
		if !seen[name] {
			seen[name], out = true, append(out, member)
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// pass deletes a namespace with its content, again and again (WATCH-15).
func (w *writer) pass(ctx context.Context) error {
	for !w.closing() && ctx.Err() == nil {
		if w.random.IntN(200) > 0 {
			if err := w.write(ctx); err != nil {
				return err
			}
			continue
		}
		code, err := w.host.write(ctx, http.MethodDelete, "/api/v1/namespaces/"+passing, "", "")
		if err != nil || code != 200 && code != 202 {
			return fmt.Errorf("the namespace cannot be deleted: %d %w", code, err)
		}
		w.counts.namespaces.Add(1)
		for code = 409; code == 409; {
			// Remove the finalizers of objects that wait for them.
			if err := w.release(ctx); err != nil {
				return err
			}
			if code, err = w.host.write(ctx, http.MethodPost, "/api/v1/namespaces", jsonType, `{"metadata":{"name":"passing"}}`); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) release(ctx context.Context) error {
	for i := range 30 {
		one := fmt.Sprintf("%s/n%d", boats(passing), i)
		if _, err := w.host.write(ctx, http.MethodPatch, one, mergeType, `{"metadata":{"finalizers":null}}`); err != nil {
			return err
		}
	}
	return nil
}
