package program

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gadgetOf returns a Gadget that a Widget owns.
func gadgetOf(name string, owner *object) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Widget","name":%q,"uid":%q,"blockOwnerDeletion":true}]}}`,
		name, owner.Metadata.Name, owner.Metadata.UID)
}

func TestGC_01_TheCollectorCanBeTurnedOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := serveIn(t, t.TempDir(), fmt.Sprint("--garbage-collection=", on))
		kube := admin(t, s.kubeconfig)
		kube.create(t, widgetsPath, widget("owner"))
		var owner object
		kube.get(t, widgetsPath+"/owner", &owner)
		kube.create(t, gadgetsPath, gadgetOf("owned", &owner))
		a := kube.do(t, http.MethodDelete, widgetsPath+"/owner?propagationPolicy=Foreground", "")
		require.Equal(t, http.StatusOK, a.code, "%s", a.body)
		if on {
			require.Eventually(t, func() bool { return kube.names(t, widgetsPath) == "" }, waitLimit, 10*time.Millisecond)
			assert.Empty(t, kube.names(t, gadgetsPath))
		} else {
			time.Sleep(50 * time.Millisecond) // long enough for a collector to act
			assert.Equal(t, "owner", kube.names(t, widgetsPath))
			assert.Equal(t, "owned", kube.names(t, gadgetsPath))
		}
		require.Zero(t, s.stop())
	}
}

// A server that is killed leaves objects half deleted. The next one continues until no work is
// left.
func TestGC_02_GC_03_AcrossKills(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	launched := func() (*process, *client) {
		p := launch(t, "--data-dir="+dir, "--listen="+address)
		p.serving(t)
		return p, admin(t, filepath.Join(dir, "kubeconfig"))
	}
	const n = 150
	p, kube := launched()
	for _, policy := range []string{"Foreground", "Orphan"} {
		kube.create(t, widgetsPath, widget("owner"))
		var owner object
		kube.get(t, widgetsPath+"/owner", &owner)
		for i := range n {
			kube.create(t, gadgetsPath, gadgetOf(fmt.Sprintf("g%03d", i), &owner))
		}
		a := kube.do(t, http.MethodDelete, widgetsPath+"/owner?propagationPolicy="+policy, "")
		require.Equal(t, http.StatusOK, a.code, "%s", a.body)
		kills := 0
		for ; kills < 4; kills++ {
			time.Sleep(time.Duration(kills) * 3 * time.Millisecond) // a little further each time
			p.kill()
			p, kube = launched()
		}
		require.Eventually(t, func() bool { return kube.names(t, widgetsPath) == "" }, waitLimit, 10*time.Millisecond)
		var left objectList
		kube.get(t, gadgetsPath, &left)
		if policy == "Foreground" {
			require.Empty(t, left.Items)
			continue
		}
		require.Len(t, left.Items, n, "nothing was lost")
		for _, g := range left.Items {
			require.Empty(t, g.Metadata.OwnerReferences, g.Metadata.Name)
		}
	}
	require.NotContains(t, strings.ToLower(p.errOut.String()), "panic")
}
