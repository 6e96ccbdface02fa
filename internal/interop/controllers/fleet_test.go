package controllers

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gauge is a metric that a test sets.
type gauge struct {
	mu   sync.Mutex
	load float64
	read int
}

// Load implements Metric.
func (g *gauge) Load(context.Context, types.NamespacedName) (float64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read++
	return g.load, nil
}

func (g *gauge) set(load float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.load = load
}

// A fleet grows with its load at once and shrinks after a quiet time, both through its scale, one
// ship at a time.
func TestScale(t *testing.T) {
	everywhere(t, "scale", func(t *testing.T, p *place) {
		g := &gauge{load: 1}
		calm := 5 * p.hour
		p.run(func(m ctrl.Manager) error {
			if err := (&FleetReconciler{Client: m.GetClient(), Pause: p.hour / 60}).SetUp(m, p.options()); err != nil {
				return err
			}
			return (&Autoscaler{Client: m.GetClient(), Metric: g, PerShip: 10, Least: 1, Most: 20, Interval: p.hour / 4, Calm: calm}).SetUp(m, p.options())
		})
		f := &Fleet{ObjectMeta: p.meta("ferries"), Spec: FleetSpec{Replicas: 3}}
		require.NoError(t, p.Create(t.Context(), f))
		are := func(ships int32) {
			t.Helper()
			p.until("the fleet has its size", func() bool {
				return p.get(f) && f.Spec.Replicas == ships && f.Status == (FleetStatus{Replicas: ships, Selector: "shop.example.com/fleet=ferries"})
			})
		}
		are(1)
		g.set(55)
		are(6)
		g.set(math.MaxInt16)
		are(20)
		began := time.Now()
		g.set(35)
		are(4)
		if p.virtual {
			require.GreaterOrEqual(t, time.Since(began), calm)
		}

		var scale autoscalingv1.Scale
		require.NoError(t, p.SubResource("scale").Get(t.Context(), f, &scale))
		require.Equal(t, autoscalingv1.ScaleStatus{Replicas: 4, Selector: "shop.example.com/fleet=ferries"}, scale.Status)
		require.Equal(t, int32(4), scale.Spec.Replicas)
		require.Equal(t, []any{f.UID, f.Name, f.Namespace, f.ResourceVersion}, []any{scale.UID, scale.Name, scale.Namespace, scale.ResourceVersion})
		old := scale
		old.Spec.Replicas, old.ResourceVersion = 7, "1"
		require.True(t, apierrors.IsConflict(p.SubResource("scale").Update(t.Context(), f, client.WithSubResourceBody(&old))))
		scale.Spec.Replicas = 101
		err := p.SubResource("scale").Update(t.Context(), f, client.WithSubResourceBody(&scale))
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "spec.replicas")
		generation := f.Generation
		g.set(45)
		are(5)
		require.Equal(t, generation+1, f.Generation, "a scale is a change of the spec")
		managers := map[string]string{}
		for _, entry := range f.ManagedFields {
			managers[entry.Subresource] += string(entry.Operation)
		}
		require.Equal(t, map[string]string{"": "Update", "scale": "Update", "status": "Update"}, managers)
	})
}
