package flowcontrol_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/flowcontrol"
)

// The dumps have the columns that the documentation of Kubernetes shows, in its order. Seats is ours.
func TestAPF_DumpsHaveTheColumnsOfKubernetes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := flowcontrol.NewController(1)
		one := int32(1000)
		queued := flowcontrol.PriorityLevelConfiguration{Spec: flowcontrol.LevelSpec{Type: flowcontrol.TypeLimited, Limited: &flowcontrol.Limited{
			NominalConcurrencyShares: &one, LimitResponse: flowcontrol.LimitResponse{
				Type: flowcontrol.ResponseQueue, Queuing: &flowcontrol.Queuing{Queues: 1, HandSize: 1, QueueLengthLimit: 5},
			},
		}}}
		queued.Name = "queued"
		schema := flowcontrol.FlowSchema{Spec: flowcontrol.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrol.LevelReference{Name: "queued"}, MatchingPrecedence: 100,
			Rules: []flowcontrol.Rule{{
				Subjects:      []flowcontrol.Subject{{Kind: flowcontrol.SubjectGroup, Group: &flowcontrol.Named{Name: "*"}}},
				ResourceRules: []flowcontrol.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true}},
			}},
		}}
		schema.Name = "queued"
		c.Put(flowcontrol.Objects{Schemas: []flowcontrol.FlowSchema{schema}, Levels: []flowcontrol.PriorityLevelConfiguration{queued}})
		row := func(what string) []string {
			text, ok := c.Dump(what)
			require.True(t, ok)
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "queued,") {
					return strings.Split(strings.ReplaceAll(strings.TrimSpace(line), " ", ""), ",")
				}
			}
			return nil
		}
		head := func(what string) string {
			text, _ := c.Dump(what)
			line, _, _ := strings.Cut(text, "\n")
			return strings.ReplaceAll(line, " ", "")
		}
		require.Equal(t, "PriorityLevelName,ActiveQueues,IsIdle,IsQuiescing,WaitingRequests,ExecutingRequests,DispatchedRequests,"+
			"RejectedRequests,TimedoutRequests,CancelledRequests,Seats", head("priority_levels"))
		require.Equal(t, "PriorityLevelName,Index,PendingRequests,ExecutingRequests,SeatsInUse,NextDispatchR,InitialSeatsSum,MaxSeatsSum,TotalWorkSum", head("queues"))

		a := request("ann", []string{authn.GroupAuthenticated}, "list", "", "nodes", "", "")
		p, reason := c.Enter(t.Context(), a, 1, time.Minute)
		require.Empty(t, reason)
		require.Equal(t, []string{"queued", "0", "false", "false", "0", "1", "1", "0", "0", "0", "1"}, row("priority_levels"), "no queue has a request that waits")
		go func() {
			p, reason := c.Enter(t.Context(), a, 1, time.Minute)
			if reason == "" {
				p.Leave()
			}
		}()
		synctest.Wait()
		require.Equal(t, []string{"queued", "1", "false", "false", "1", "1", "1", "0", "0", "0", "1"}, row("priority_levels"))
		queue := row("queues")
		require.Equal(t, []string{"queued", "0", "1", "1", "1"}, queue[:5])
		require.Equal(t, []string{"1", "1", "0.00300000ss"}, queue[6:])
		p.Leave()
		synctest.Wait()
		require.Equal(t, []string{"queued", "0", "true", "false", "0", "0", "2", "0", "0", "0", "1"}, row("priority_levels"))
	})
}
