package gc

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// versioned returns a kind that stores v1 and also has v1alpha1, which it can or cannot convert.
func versioned(t *testing.T, conversions *atomic.Int64, fail error) []*registry.Resource {
	convert := func(p *Part) (*Part, error) {
		conversions.Add(1)
		return &Part{Text: p.Text}, fail
	}
	k := registry.Kind[Part]{
		Group: group, Version: "v1", Plural: "olds", Names: registry.Names{Kind: "Old"},
		Also: []registry.Form{registry.As(registry.Kind[Part]{Group: group, Version: "v1alpha1", Plural: "olds", Names: registry.Names{Kind: "Old"}}, convert, convert, nil)},
	}
	bundle, err := k.Define(registry.Env{})
	require.NoError(t, err)
	return bundle.Resources
}

// The collector changes and deletes objects that are stored in another version without converting
// them. So it gets rid of objects that cannot be converted, too.
func TestVER_15_TheCollectorConvertsNothing(t *testing.T) {
	for name, fail := range map[string]error{"what can be converted": nil, "what cannot": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, db storage.Backend) {
				alpha := kind(t, "old", func(k *registry.Kind[Part]) { k.Version = "v1alpha1" })
				earlier := newWorld(t, db, kind(t, "aaa"), alpha)
				owner, other := earlier.make("aaas/x/owner"), earlier.make("aaas/x/other")
				olds := map[string]*Part{}
				make := func(name string, owners ...meta.OwnerReference) {
					to := target("olds/x/" + name)
					to.Resource.Version = "v1alpha1"
					olds[name] = earlier.makeAt(to, nil, owners...)
				}
				make("dependent", ref(owner))
				make("of-two", ref(owner), ref(other))
				make("orphaned")
				make("foreground")
				make("below", meta.OwnerReference{APIVersion: group + "/v1", Kind: "Old", Name: "foreground", UID: olds["foreground"].UID, BlockOwnerDeletion: new(bool)})
				earlier.make("aaas/x/kept", meta.OwnerReference{APIVersion: group + "/v1", Kind: "Old", Name: "orphaned", UID: olds["orphaned"].UID})
				earlier.stop()

				var conversions atomic.Int64
				w := newWorldWith(t, db, engine.Config{Migration: engine.MigrateNothing, Logger: quiet()}, append(versioned(t, &conversions, fail), kind(t, "aaa"))...)
				remove := func(path string, policy meta.DeletionPropagation) {
					_, err := w.engine.Delete(asAdmin(), target(path), registry.DeleteOptions{Propagation: policy, MetadataOnly: true})
					require.NoError(t, err)
				}
				remove("aaas/x/owner", "")
				remove("olds/x/orphaned", meta.DeletePropagationOrphan)
				remove("olds/x/foreground", meta.DeletePropagationForeground)
				rest()
				require.Zero(t, conversions.Load())
				list, err := w.engine.List(asAdmin(), registry.Target{Resource: target("olds").Resource}, registry.ListRequest{MetadataOnly: true})
				require.NoError(t, err)
				var left []string
				for e, err := range list.Items {
					require.NoError(t, err)
					left = append(left, e.Name())
					require.Equal(t, []meta.UID{other.UID}, e.Owners())
				}
				require.Equal(t, []string{"of-two"}, left)
				require.Equal(t, []string{"aaas/x/kept", "aaas/x/other"}, w.all("aaas"))
				require.Zero(t, conversions.Load())
				require.Zero(t, w.collector.Stats().Unsettled)
			})
		})
	}
}
