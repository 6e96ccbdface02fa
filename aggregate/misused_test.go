package aggregate_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	certificate := func() (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	nobody := aggregate.Services(nil, "k8s.io", false)
	_, err := nobody.Resolve(t.Context(), "default", "a", 443)
	require.ErrorContains(t, err, "aggregate.Services: the objects are nil: pass those of a server")
	_, err = aggregate.New(aggregate.Config{Certificate: certificate, Resolver: nobody})
	require.ErrorContains(t, err, "Config.Resolver: the objects given to Services are nil")

	a, err := aggregate.New(aggregate.Config{Certificate: certificate})
	require.NoError(t, err)
	const twice = "another server has this Aggregator: make one with aggregate.New for each server"
	first, err := kindwright.New(memory.New(), kindwright.Aggregate(a))
	require.NoError(t, err)
	second, err := kindwright.New(memory.New(), kindwright.Aggregate(a)) // none of them runs
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, first.Start(ctx))
	require.ErrorContains(t, second.Start(ctx), twice)
	_, err = kindwright.New(memory.New(), kindwright.Aggregate(a))
	require.ErrorContains(t, err, twice)
	_, err = kindwright.New(memory.New(), kindwright.Aggregate(nil))
	require.ErrorContains(t, err, "Aggregate: the aggregator is nil")
}
