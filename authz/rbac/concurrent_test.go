package rbac_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
)

// While many roles and bindings of one group change, a question that begins after a change is
// answered with it, and a right that nothing changes is never lost.
func TestChangesCountWhileOthersAsk(t *testing.T) {
	x := rbac.NewIndex("k8s.io")
	group := []rbac.Subject{{Kind: "Group", Name: "g"}}
	allow := func(resource string) []rule {
		return []rule{{Verbs: words("get"), APIGroups: words(""), Resources: words(resource, "shared")}}
	}
	x.PutRole("", "steady", allow("steady"))
	x.PutBinding("", "steady", clusterRole("steady"), group)
	asks := func(resource string) authz.Decision {
		d, _, err := x.Authorize(context.Background(), authz.Attributes{
			User: authn.User{Name: "u", Groups: words("g")}, Verb: "get", ResourceRequest: true, Resource: resource,
		})
		if err != nil {
			panic(err)
		}
		return d
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	lost := make(chan string, 2)
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if asks("steady") != authz.Allow || asks("shared") != authz.Allow {
					lost <- "a right that nobody changed"
					return
				}
			}
		})
	}
	wrong := make(chan string, 100)
	for w := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range 300 {
				n := r.IntN(25)
				name := fmt.Sprintf("w%d-%d", w, n) // nobody else writes it
				x.PutRole("", name, allow(name))
				x.PutBinding("", name, clusterRole(name), group)
				if asks(name) != authz.Allow {
					wrong <- "not granted: " + name
				}
				switch r.IntN(3) {
				case 0:
					x.DropBinding("", name)
				case 1:
					x.DropRole("", name)
				case 2:
					x.PutRole("", name, allow("other"))
				}
				if asks(name) != authz.NoOpinion {
					wrong <- "not revoked: " + name
				}
				if i%2 == 0 {
					x.DropRole("", name)
				}
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	close(wrong)
	close(lost)
	for text := range wrong {
		require.Fail(t, text)
	}
	for text := range lost {
		require.Fail(t, text)
	}
}

// A right that many roles give lasts until the last of them is gone, in whichever way they go.
func TestARightLastsAsLongAsOneRoleGivesIt(t *testing.T) {
	const n = 30
	x := rbac.NewIndex("k8s.io")
	for i := range n {
		name := fmt.Sprint(i)
		x.PutRole("", name, []rule{{Verbs: words("get", "frob"), APIGroups: words(""), Resources: words("shared")}})
		x.PutBinding("", name, clusterRole(name), []rbac.Subject{{Kind: "User", Name: "u"}})
	}
	for i := range n {
		for _, text := range words("get", "frob") {
			d, _ := ask(x, request("u "+text+" shared"))
			require.Equal(t, authz.Allow, d, "%d roles are left", n-i)
		}
		name := fmt.Sprint((i + 26) % n)
		switch i % 3 {
		case 0:
			x.DropBinding("", name)
		case 1:
			x.DropRole("", name)
		case 2:
			x.PutRole("", name, nil)
		}
	}
	d, _ := ask(x, request("u get shared"))
	require.Equal(t, authz.NoOpinion, d)
}
