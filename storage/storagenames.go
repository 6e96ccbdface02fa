package storage

import (
	"context"
	"fmt"
	"iter"
)

// StorageNames yields the storage names that the store has objects of, in the order of their keys.
// It reads one record for each, and no record twice. An error ends the sequence.
//
// It reads without a snapshot: a name whose first object arrives meanwhile may be missing.
func (s *Store) StorageNames(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		request := ListRequest{Prefix: ObjectRoot, Limit: 1}
		for {
			page, err := s.List(ctx, request)
			if err != nil {
				yield("", err)
				return
			}
			if len(page.Records) == 0 {
				return
			}
			name, _, _, ok := SplitObjectKey(page.Records[0].Key)
			if !ok {
				yield("", fmt.Errorf("%q is not an object key", page.Records[0].Key))
				return
			}
			if !yield(name, nil) {
				return
			}
			request.After = ResourcePrefix(name) + "\xff" // after every object of the name
		}
	}
}
