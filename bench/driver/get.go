package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

func getWorkloads() []Workload {
	var out []Workload
	for _, form := range []struct{ name, query, doc string }{
		{"get", "", "one object, with the latest state"},
		{"get-rv0", "?resourceVersion=0", "one object, in any state that the server has at hand"},
	} {
		for _, workers := range []int{1, 16, 64} {
			out = append(out, Workload{
				Name: fmt.Sprintf("%s/c%d", form.name, workers),
				Doc:  fmt.Sprintf("%s, %d at once", form.doc, workers),
				run: func(ctx context.Context, t *Target) (Result, error) {
					return t.gets(ctx, workers, form.query)
				},
			})
		}
	}
	return out
}

func (t *Target) gets(ctx context.Context, workers int, query string) (Result, error) {
	coll, err := t.fill(ctx, "scratch", t.scale.Scratch)
	if err != nil {
		return Result{}, err
	}
	paths := make([]string, t.scale.Scratch)
	for i := range paths {
		paths[i] = coll + "/" + object(i) + query
	}
	var body bytes.Buffer
	if err := t.fetch(ctx, t.clients[0], request{path: paths[0]}, &body); err != nil {
		return Result{}, err
	}
	var got struct {
		Metadata struct{ Name, ResourceVersion string }
	}
	if err := json.Unmarshal(body.Bytes(), &got); err != nil {
		return Result{}, err
	}
	if got.Metadata.Name != object(0) || got.Metadata.ResourceVersion == "" {
		return Result{}, fmt.Errorf("GET %s: the response is another object: %.200s", paths[0], body.Bytes())
	}
	least := int64(body.Len() / 2) // objects differ by their numbers
	return t.loop(ctx, t.closed(workers), func(ctx context.Context, w, i int) (int64, error) {
		path := paths[i*7%len(paths)]
		n, err := t.drain(ctx, t.clientOf(w), request{path: path})
		if err == nil && n < least {
			err = fmt.Errorf("GET %s: %d bytes are not an object", path, n)
		}
		return n, err
	})
}
