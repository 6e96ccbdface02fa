package aggregate_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Whoever installs a server waits for the condition of its APIService after its pods are ready. A service that is not
// there, or has no endpoints, was looked for every 30 seconds in the end, so the wait could end first.
func TestOPS_08_AServiceThatComesIsFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		problem := atomic.Pointer[aggregate.Problem]{}
		problem.Store(&aggregate.Problem{Reason: "MissingEndpoints", Message: "none"})
		behind, err := aggregate.New(aggregate.Config{
			Certificate: func() (*tls.Certificate, error) { return nil, nil }, //nolint:nilnil // none
			Resolver: aggregate.ResolverFunc(func(context.Context, string, string, int32) (string, error) {
				looks.Add(1)
				if p := problem.Load(); p != nil {
					return "", p
				}
				return "", errors.New("no answer yet")
			}),
		})
		require.NoError(t, err)
		srv := apitest.Config{Options: []kindwright.Option{kindwright.Aggregate(behind)}}.New(t)
		services := registry.From[aggregate.APIService](srv.API.Engine())
		s := &aggregate.APIService{ObjectMeta: meta.ObjectMeta{Name: "v1.boats.example.dev"}}
		s.Spec = aggregate.APIServiceSpec{Group: "boats.example.dev", Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1}
		s.Spec.Service = &aggregate.ServiceReference{Namespace: "default", Name: "boats"}
		_, err = services.Create(t.Context(), s)
		require.NoError(t, err)
		version := func(reason string) string {
			s, err := services.Get(t.Context(), "", "v1.boats.example.dev")
			require.NoError(t, err)
			require.Len(t, s.Status.Conditions, 1)
			require.Equal(t, reason, s.Status.Conditions[0].Reason)
			return s.ResourceVersion
		}
		time.Sleep(time.Minute)
		before := version("MissingEndpoints")
		for range 60 {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, before, version("MissingEndpoints"), "nothing is written meanwhile")
		}
		for i := range 10 { // at whichever moment of the wait it comes
			reason := "Reason" + strconv.Itoa(i)
			problem.Store(&aggregate.Problem{Reason: reason, Message: "another"})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			version(reason)
			time.Sleep(5 * time.Second)
		}
		problem.Store(nil) // the service is there, and its server is not quite
		time.Sleep(2 * time.Second)
		synctest.Wait()
		version("FailedDiscoveryCheck")
		problem.Store(&aggregate.Problem{Reason: "Done", Message: "it answers"})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		version("Done")
		require.Less(t, looks.Load(), int64(2*62*60), "once a second, and for each check")
	})
}
