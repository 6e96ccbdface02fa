package crdoracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusedByUs are texts that Kubernetes accepts. Numbers of addresses with leading zeros are
// ambiguous, an IPv6 address is not an IPv4 address, and Kubernetes finds durations such as "7e" in
// the middle of other texts.
var refusedByUs = map[string][]string{
	"cidr": {"010.0.0.1/8"},
	"ipv4": {"01.2.3.4", "::ffff:1.2.3.4"},
	"duration": {
		"123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000",
		"123E4567-E89B-52D3-B456-426614174000", "123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-12d3-a456-42661417400", "{123e4567-e89b-12d3-a456-426614174000}",
	},
}

// Every format accepts the same texts.
//
// Source: CRD-10.
func TestFormats(t *testing.T) {
	for _, format := range formats {
		document := fmt.Appendf(nil, `{"type":"object","properties":{"a":{"type":"string","format":%q}}}`, format)
		theirs, _, err := newKubernetes(document)
		require.NoError(t, err)
		ours, _, err := newKindwright(document)
		require.NoError(t, err)
		for _, value := range texts {
			body, err := json.Marshal(map[string]any{"a": value})
			require.NoError(t, err)
			their, err := theirs.conform(body)
			require.NoError(t, err)
			our, err := ours.conform(body)
			require.NoError(t, err)
			want := len(theirs.create(their))
			if slices.Contains(refusedByUs[format], value) {
				require.Zero(t, want, "format %s: %q", format, value)
				want = 1
			}
			require.Len(t, ours.create(our), want, "format %s: %q", format, value)
		}
	}
}
