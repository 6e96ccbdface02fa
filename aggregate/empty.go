package aggregate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

var _ engine.Elsewhere = (*Aggregator)(nil)

// What an answer about the objects in a namespace may have.
const (
	someObjects    = 100
	maxAnswerBytes = 4 << 20
)

var errNotAsked = errors.New("it is not known yet what the server has")

// Empty implements engine.Elsewhere, so that a namespace goes with its objects. A back end that fails its
// checks is left out: it would keep all namespaces, also those where it has nothing.
func (a *Aggregator) Empty(ctx context.Context, namespace string, report func(of meta.GroupVersionResource, left int, failure error)) {
	var all sync.WaitGroup
	defer all.Wait()
	for gv, b := range a.table.Load().backends {
		v := b.now.Load()
		switch {
		case !v.available:
		case v.resources == nil:
			report(gv.WithResource("*"), 0, errNotAsked)
		default:
			all.Go(func() { b.empty(ctx, namespace, v.resources, report) })
		}
	}
}

// empty deletes the objects that a back end has in a namespace. It ends with the first failure, so that a
// back end that hangs takes the time of one question.
func (b *backend) empty(ctx context.Context, namespace string, resources []resource, report func(meta.GroupVersionResource, int, error)) {
	gv := b.service.groupVersion()
	for i := range resources {
		r := &resources[i]
		if !r.Namespaced || !slices.Contains(r.Verbs, "delete") && !slices.Contains(r.Verbs, "deletecollection") {
			continue
		}
		path := documentPath(gv) + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(r.Plural)
		left, err := b.emptyKind(ctx, path, r.Verbs)
		if left > 0 || err != nil {
			report(gv.WithResource(r.Plural), left, err)
		}
		if err != nil {
			return
		}
	}
}

// emptyKind deletes the objects of one kind, and counts those that are left: they are held by finalizers.
func (b *backend) emptyKind(ctx context.Context, path string, verbs []string) (left int, err error) {
	lists := slices.Contains(verbs, "list")
	var names []string
	if lists {
		if names, err = b.names(ctx, path); err != nil || len(names) == 0 {
			return 0, err
		}
	}
	collection := slices.Contains(verbs, "deletecollection")
	if collection {
		err = b.remove(ctx, path)
		collection = !errors.Is(err, errCannot) // or it says so, and cannot
	}
	if !collection {
		err = nil
		for _, name := range names {
			if err = b.remove(ctx, path+"/"+url.PathEscape(name)); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errCannot) {
		err = nil
	}
	if err != nil || !lists {
		return len(names), err
	}
	names, err = b.names(ctx, path)
	return len(names), err
}

// names lists the names of the first objects of a kind.
func (b *backend) names(ctx context.Context, path string) (names []string, err error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	err = b.ask(ctx, http.MethodGet, path+"?limit="+strconv.Itoa(someObjects), func(body []byte) error { return json.Unmarshal(body, &list) })
	if errors.Is(err, errCannot) {
		return nil, nil
	}
	for i := range list.Items {
		if name := list.Items[i].Metadata.Name; name != "" && meta.CheckPathSegment(name) == "" {
			names = append(names, name)
		}
	}
	return names, err
}

// remove deletes an object or a collection.
func (b *backend) remove(ctx context.Context, path string) error {
	return b.ask(ctx, http.MethodDelete, path+"?propagationPolicy=Background", func([]byte) error { return nil })
}

// errCannot says that a back end has no such operation.
var errCannot = errors.New("the server behind an APIService cannot do that")

// ask sends a request as the user of the context. What is not there is gone.
func (b *backend) ask(ctx context.Context, method, target string, use func(body []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "https://"+b.host()+target, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	if method != http.MethodGet {
		r.Header.Set("Accept", "application/json")
	}
	u, ok := authn.UserFrom(ctx)
	if !ok {
		return errors.New("nobody asks for the objects of a namespace")
	}
	if err := identify(r.Header, u); err != nil {
		return err
	}
	res, err := b.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch code := res.StatusCode; {
	case code == http.StatusNotFound:
		return nil
	case code == http.StatusMethodNotAllowed:
		return errCannot
	case code/100 != 2:
		return fmt.Errorf("the server behind the APIService %s answered with the code %d", b.service.Name, code)
	case method != http.MethodGet:
		return nil // what was deleted may be long
	}
	body, done, err := b.of.documents.read(ctx, res.Body, maxAnswerBytes)
	if err != nil {
		return err
	}
	defer done()
	return use(body)
}
