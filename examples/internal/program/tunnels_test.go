package program

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/internal/issuer"
)

func TestREAD_31_EGRESS_13_AnIssuerBehindATunnel(t *testing.T) {
	dir, i, tunnel := t.TempDir(), issuer.New(t), egresstest.Listen(t)
	issuers := "--authentication-config=" + writeTo(t, dir, "authn.yaml", strings.Replace(trusting(i), "audiences:", "egressSelectorType: cluster, audiences:", 1))
	s := serveIn(t, t.TempDir(), issuers, "--egress-selector-config-file="+writeTo(t, dir, "egress.yaml", tunnel.Document("cluster")))
	require.NotEmpty(t, s.dir)
	require.Eventually(t, func() bool { return len(tunnel.Asked()) > 0 }, time.Minute, 5*time.Millisecond)
	require.Equal(t, strings.TrimPrefix(i.URL, "https://"), tunnel.Asked()[0])

	other := "--egress-selector-config-file=" + writeTo(t, dir, "other.yaml", tunnel.Document("controlplane"))
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+dir+"/data", issuers, other)
	require.Contains(t, r.errOut, `egress lookup for "cluster" is not configured`)
	r = refused(t, "--listen=127.0.0.1:0", "--data-dir="+dir+"/data", "--egress-selector-config-file="+writeTo(t, dir, "wrong.yaml", "kind: Lamp"))
	require.Contains(t, r.errOut, "--egress-selector-config-file: failed to read egress selector config: ")
	require.NoDirExists(t, dir+"/data")
}
