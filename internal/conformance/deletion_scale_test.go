package conformance

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// One request deletes more than ten thousand objects while other clients delete and create some.
func TestDEL_15_MoreThanTenThousandObjects(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		n := effort.Of(10_050)
		engine, slates := s.api.Engine(), registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: "slates"}, Namespace: "default"}
		var next atomic.Int64
		var writers sync.WaitGroup
		for range 64 { // concurrent writers share a sync
			writers.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					_, err := engine.Create(t.Context(), slates, fmt.Appendf(nil, `{"metadata":{"name":"s%05d"}}`, i), registry.WriteOptions{})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		var others sync.WaitGroup
		others.Go(func() {
			for i := n; i > n-500; i-- {
				a := s.do("DELETE", fmt.Sprintf("%s/s%05d", slatePath, i), "")
				if a.code != 200 && a.code != 404 {
					t.Errorf("%s", a)
				}
			}
		})
		s.delete(slatePath)
		others.Wait()
		require.Empty(t, s.get(slatePath).names())
		s.create(slatePath, `{"metadata":{"name":"later"}}`)
		require.Equal(t, []string{"later"}, s.get(slatePath).names())
	})
}
