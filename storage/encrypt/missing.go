package encrypt

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// checkPage is how many records Missing reads at once.
const checkPage = 500

// Missing looks at what is stored and returns the first object that could not be read under rules,
// because they have no key of the name that its value carries. It decrypts nothing. Of a resource that
// the rules do not name it looks at one object.
func (e *Backend) Missing(ctx context.Context, rules []Rule) error {
	r, err := compile(rules)
	if err != nil {
		return err
	}
	request := storage.ListRequest{Limit: checkPage}
	for {
		page, err := e.backend.List(ctx, request)
		if err != nil {
			return err
		}
		for i := range page.Records {
			next, err := r.look(&page.Records[i])
			if err != nil {
				return err
			}
			if request.After = page.Records[i].Key; next != "" {
				request.After, page.More = next, true
				break
			}
		}
		if !page.More {
			return nil
		}
	}
}

// look checks one record. It returns where to go on if the others of its resource need no look.
func (r *ring) look(record *storage.Record) (next string, err error) {
	name := storageNameOf(record.Key)
	if name == "" || record.Err != nil {
		return "", nil //nolint:nilerr // a record that cannot be read is left out where it is needed
	}
	encrypted := bytes.HasPrefix(record.Value, []byte(mark))
	c := r.of(name)
	var why error
	switch {
	case c != nil && !c.has(record.Value, encrypted):
		why = missing(record.Value)
	case c == nil && encrypted:
		why = errNoRule
	case c == nil:
		return storage.ResourcePrefixOf(record.Key) + "\xff", nil
	default:
		return "", nil
	}
	_, namespace, object, _ := storage.SplitObjectKey(record.Key[strings.LastIndex(record.Key, storage.ObjectRoot+name+"/"):])
	name = strings.ReplaceAll(name, "%2F", "/")
	return "", fmt.Errorf("the object %q of %s in the store could not be read: %w; if the key is lost, add another one of its name, and delete the objects",
		strings.TrimPrefix(namespace+"/"+object, "/"), name, why)
}

// has reports whether a value looks like one of the forms.
func (c *chain) has(value []byte, encrypted bool) bool {
	for i := range c.forms {
		prefix := c.forms[i].prefix
		if prefix == "" && !encrypted || prefix != "" && bytes.HasPrefix(value, []byte(prefix)) {
			return true
		}
	}
	return false
}
