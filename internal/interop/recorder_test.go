package interop

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

var regarding = &corev1.ObjectReference{APIVersion: "example.dev/v1", Kind: "Widget", Namespace: "default", Name: "w", UID: "u"}

// The recorder of the core group counts repetitions with a strategic merge patch.
func TestEVT_21_CoreRecorder(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})
		recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "tests", Host: "here"})
		recorder.Event(regarding, corev1.EventTypeNormal, "Made", "It was made.")
		recorder.AnnotatedEventf(regarding, map[string]string{"a": "b"}, corev1.EventTypeWarning, "Broke", "It broke %d times.", 2)
		for range 3 {
			recorder.Event(regarding, corev1.EventTypeNormal, "Again", "It happened again.")
		}
		found := map[string]corev1.Event{}
		require.Eventually(t, func() bool {
			list, err := client.CoreV1().Events("default").SearchWithContext(ctx, scheme.Scheme, regarding)
			require.NoError(t, err)
			for _, event := range list.Items {
				found[event.Reason] = event
			}
			return len(list.Items) == 3 && found["Again"].Count == 3
		}, waitLimit, often)
		require.Equal(t, "It was made.", found["Made"].Message)
		require.Equal(t, int32(1), found["Made"].Count)
		require.Equal(t, corev1.EventSource{Component: "tests", Host: "here"}, found["Made"].Source)
		require.Equal(t, "It broke 2 times.", found["Broke"].Message)
		require.Equal(t, "b", found["Broke"].Annotations["a"])
		newer, err := client.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=Again"})
		require.NoError(t, err)
		require.Len(t, newer.Items, 1)
		require.Equal(t, int32(3), newer.Items[0].DeprecatedCount)
	})
}

// The recorder of events.k8s.io turns repetitions into a series with a strategic merge patch.
func TestEVT_33_EventsRecorder(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
		defer broadcaster.Shutdown()
		require.NoError(t, broadcaster.StartRecordingToSinkWithContext(ctx))
		recorder := broadcaster.NewRecorder(scheme.Scheme, "example.dev/tests")
		only := func(reason string) *eventsv1.Event {
			list, err := client.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
			require.NoError(t, err)
			if len(list.Items) == 0 {
				return nil
			}
			require.Len(t, list.Items, 1)
			return &list.Items[0]
		}
		recorder.Eventf(regarding, nil, corev1.EventTypeNormal, "Made", "Making", "It was made by %s.", "a test")
		require.Eventually(t, func() bool { return only("Made") != nil }, waitLimit, often)
		event := only("Made")
		require.Equal(t, "It was made by a test.", event.Note)
		require.Equal(t, *regarding, event.Regarding)
		require.Equal(t, "example.dev/tests", event.ReportingController)
		require.False(t, event.EventTime.IsZero())
		require.Nil(t, event.Series)
		recorder.Eventf(regarding, nil, corev1.EventTypeNormal, "Made", "Making", "It was made by %s.", "a test")
		require.Eventually(t, func() bool { s := only("Made").Series; return s != nil && s.Count == 2 }, waitLimit, often)
	})
}
