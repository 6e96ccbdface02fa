package controllers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// office issues certificates while it is open.
type office struct {
	mu     sync.Mutex
	issued int64
	asked  int
	until  time.Time // closed
}

func (o *office) Issue(context.Context, string) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if time.Now().Before(o.until) {
		return 0, errors.New("the office is closed")
	}
	o.issued++
	return o.issued, nil
}

func (o *office) close(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Now().Add(d)
}

// said returns how often an event was recorded for a certificate.
func (p *place) said(c *Certificate, reason string) (times int) {
	p.t.Helper()
	var all corev1.EventList
	require.NoError(p.t, p.List(p.t.Context(), &all, client.InNamespace(p.namespace), client.MatchingFields{"involvedObject.uid": string(c.UID), "reason": reason}))
	for range all.Items {
		times++
	}
	return times
}

// A certificate is renewed in time for months. Its status describes it, and other writers share the
// status.
func TestConditions(t *testing.T) {
	everywhere(t, "conditions", func(t *testing.T, p *place) {
		o := &office{}
		p.run(func(m ctrl.Manager) error {
			return (&CertificateReconciler{Client: m.GetClient(), Issuer: o, Recorder: m.GetEventRecorder("certificates")}).SetUp(m, p.options())
		})
		c := &Certificate{ObjectMeta: p.meta("web"), Spec: CertificateSpec{Host: "shop.example.com", Lifetime: metav1.Duration{Duration: 30 * p.hour}}}
		require.NoError(t, p.Create(t.Context(), c))
		ready := func(is metav1.ConditionStatus, generation int64) func() bool {
			return func() bool {
				condition := meta.FindStatusCondition(c.Status.Conditions, ReadyCondition)
				return p.get(c) && condition != nil && condition.Status == is && condition.ObservedGeneration == generation
			}
		}
		p.until("it is ready", ready(metav1.ConditionTrue, 1))
		p.until("it was told", func() bool { return p.said(c, "Issued") > 0 })
		since := meta.FindStatusCondition(c.Status.Conditions, ReadyCondition).LastTransitionTime

		for i := range 20 { // an auditor, while certificates are renewed
			require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				require.True(t, p.get(c))
				audited := metav1.Condition{Type: "Audited", Status: metav1.ConditionTrue, Reason: "Looked", ObservedGeneration: int64(i)}
				require.True(t, meta.SetStatusCondition(&c.Status.Conditions, audited))
				return p.Status().Update(t.Context(), c)
			}))
			time.Sleep(p.hour * 5)
		}
		p.until("there are a few", func() bool { return p.get(c) && c.Status.Serial >= 4 })
		require.Len(t, c.Status.Conditions, 2)
		require.Equal(t, int64(19), meta.FindStatusCondition(c.Status.Conditions, "Audited").ObservedGeneration)
		require.Equal(t, int64(1), c.Generation)
		if p.virtual {
			require.Equal(t, int64(6), o.issued, "at once and after each of five times twenty hours")
		}

		require.NoError(t, p.Patch(t.Context(), c, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"host":"www.example.com"}}`))))
		p.until("it is ready again", ready(metav1.ConditionTrue, 2))
		condition := meta.FindStatusCondition(c.Status.Conditions, ReadyCondition)
		require.Equal(t, since, condition.LastTransitionTime, "the status has never changed")
		require.Equal(t, "for www.example.com", condition.Message)

		o.close(100 * p.hour)
		p.until("it is not ready", ready(metav1.ConditionFalse, 2))
		require.Equal(t, "the office is closed", meta.FindStatusCondition(c.Status.Conditions, ReadyCondition).Message)
		p.until("it was told", func() bool { return p.said(c, "Refused") > 0 })
		p.until("it is ready in the end", ready(metav1.ConditionTrue, 2))
		if p.virtual {
			require.Greater(t, meta.FindStatusCondition(c.Status.Conditions, ReadyCondition).LastTransitionTime.Sub(since.Time), 200*time.Hour)
		}
	})
}
