package config

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// ENC-02: sockets are named as in Kubernetes, those without a file in both ways.
func TestSocketOf(t *testing.T) {
	for endpoint, path := range map[string]string{
		"unix:///run/kms.sock": "/run/kms.sock", "unix:///@kms.sock": "@kms.sock", "unix://@kms.sock": "@kms.sock", "unix:@kms.sock": "@kms.sock",
	} {
		u, err := url.Parse(endpoint)
		require.NoError(t, err)
		got := socketOf(u)
		require.Equal(t, path, got, endpoint)
	}
}
