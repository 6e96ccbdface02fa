package flowcontrol_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/flowcontrol"
)

// Clients of a level that turns many away are asked to wait longer and longer, as kube-apiserver asks them.
func TestAPF_01_RetryAfterGrowsWithTheFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := flowcontrol.NewController(1)
		all := []string{authn.GroupAuthenticated}
		one, reason := c.Enter(t.Context(), request("ann", all, "list", "", "pods", "", ""), 1, time.Second)
		require.Empty(t, reason)
		refuse := func(n int) (after int) {
			for range n {
				p, reason := c.Enter(t.Context(), request("bob", all, "list", "", "pods", "", ""), 1, time.Second)
				require.Equal(t, "concurrency-limit", reason)
				after = p.RetryAfter()
			}
			return after
		}
		require.Equal(t, 1, refuse(100), "one second says nothing yet")
		time.Sleep(time.Second)
		require.Equal(t, 2, refuse(10))
		time.Sleep(time.Second)
		require.Equal(t, 2, refuse(10), "it stays as long as it is, at least")
		for _, want := range []int{4, 8, 16, 32, 32} {
			for range 33 {
				time.Sleep(time.Second)
				if refuse(10) == want {
					break
				}
			}
			require.Equal(t, want, refuse(10))
		}
		time.Sleep(time.Minute)
		for want := 31; want > 0; want-- {
			require.Equal(t, want, refuse(1), "a second less for each in which few are refused")
			time.Sleep(40 * time.Second)
		}
		require.Equal(t, 1, refuse(1))

		one.Leave()
		time.Sleep(time.Second)
		again, reason := c.Enter(t.Context(), request("bob", all, "list", "", "pods", "", ""), 1, time.Second)
		require.Empty(t, reason)
		again.Leave()
	})
}

// What one level turns away is nothing to the clients of others.
func TestAPF_01_RetryAfterIsThatOfTheLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := flowcontrol.NewController(100)
		zero := int32(0)
		full := flowcontrol.LevelSpec{Type: flowcontrol.TypeLimited, Limited: &flowcontrol.Limited{
			NominalConcurrencyShares: &zero, BorrowingLimitPercent: &zero, LimitResponse: flowcontrol.LimitResponse{Type: flowcontrol.ResponseReject},
		}}
		objects := flowcontrol.Objects{}
		for _, name := range []string{"ann", "bob"} {
			objects.Levels = append(objects.Levels, flowcontrol.PriorityLevelConfiguration{Spec: full})
			objects.Levels[len(objects.Levels)-1].Name = name
			s := flowcontrol.FlowSchema{Spec: flowcontrol.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrol.LevelReference{Name: name}, MatchingPrecedence: 100,
				Rules: []flowcontrol.Rule{{
					Subjects:      []flowcontrol.Subject{{Kind: flowcontrol.SubjectUser, User: &flowcontrol.Named{Name: name}}},
					ResourceRules: []flowcontrol.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true}},
				}},
			}}
			s.Name = name
			objects.Schemas = append(objects.Schemas, s)
		}
		c.Put(objects)
		after := func(user string) int {
			p, reason := c.Enter(t.Context(), request(user, nil, "list", "", "nodes", "", ""), 1, time.Second)
			require.NotEmpty(t, reason)
			return p.RetryAfter()
		}
		for range 10 {
			require.Equal(t, 1, after("ann"))
		}
		time.Sleep(time.Second)
		require.Equal(t, 2, after("ann"))
		require.Equal(t, 1, after("bob"))
	})
}
