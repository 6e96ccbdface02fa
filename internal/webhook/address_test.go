package webhook_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/webhook"
)

func TestSSRF_AddressesThatStandForOthers(t *testing.T) {
	for of, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::1": "::1", "::": "::", "fd00::1": "fd00::1", "fe80::1%eth0": "fe80::1",
		"::ffff:169.254.169.254": "169.254.169.254", "64:ff9b::a9fe:a9fe": "169.254.169.254", "64:ff9b:1::a9fe:a9fe": "169.254.169.254",
		"2002:a9fe:a9fe::1": "169.254.169.254", "::169.254.169.254": "169.254.169.254", "::7f00:1": "127.0.0.1",
	} {
		require.Equal(t, want, webhook.Plain(netip.MustParseAddr(of)).String(), of)
	}
	for _, of := range []string{"100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"} {
		require.True(t, webhook.IsMetadata(netip.MustParseAddr(of)), of)
	}
	require.False(t, webhook.IsMetadata(netip.MustParseAddr("10.1.2.3")))
}
