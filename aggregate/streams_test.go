package aggregate_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/internal/request"
)

// A header does not make a stream of an ordinary request: it would have no deadline, and no seat.
func TestAPF_02_OPS_08_WhatMayLast(t *testing.T) {
	for _, c := range []struct {
		verb, subresource string
		header            []string
		lasts             bool
	}{
		{"create", "", nil, false},
		{"create", "", []string{"Upgrade", "x"}, false},
		{"create", "", []string{"Upgrade", "x", "Connection", "Upgrade"}, false},
		{"update", "status", []string{"Upgrade", "x", "Connection", "Upgrade"}, false},
		{"create", "console", []string{"Upgrade", "x"}, false},
		{"create", "console", []string{"Upgrade", "x", "Connection", "keep-alive, Upgrade"}, true},
		{"get", "log", nil, true},
		{"watch", "", nil, true},
	} {
		r := httptest.NewRequest("POST", "/apis/boats.example.dev/v1/boats", nil)
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		got := new(aggregate.Aggregator).Streams(&request.Info{IsResource: true, Verb: c.verb, Subresource: c.subresource}, r)
		require.Equal(t, c.lasts, got, "%+v", c)
	}
}
