package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// The two halves of all hashes.
const (
	lowShard  = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	highShard = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
)

func shardQuery(selector string) string { return "shardSelector=" + url.QueryEscape(selector) }

// Clients that share a collection see each object once, in lists, pages and watches.
func TestLIST_Shards(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(40)
		all := s.get(widgetPath).names()
		start := s.now()
		var found []string
		for nth, shard := range []string{lowShard, highShard} {
			list := s.get(widgetPath + "?" + shardQuery(shard))
			require.Equal(t, shard, list.at("metadata", "shardInfo", "selector"))
			names := list.names()
			found = append(found, names...)
			var paged []string
			for page := s.get(widgetPath + "?limit=3&" + shardQuery(shard)); ; {
				paged = append(paged, page.names()...)
				require.Nil(t, page.at("metadata", "remainingItemCount"))
				token := page.next()
				if token == "" {
					break
				}
				s.get(widgetPath+"?limit=3&continue="+url.QueryEscape(token)).refused(400, "BadRequest", "continue")
				page = s.get(widgetPath + "?limit=3&continue=" + url.QueryEscape(token) + "&" + shardQuery(shard))
			}
			require.Equal(t, names, paged)
			w := s.watch(widgetPath + "?watch=1&resourceVersion=0&" + shardQuery(shard))
			changes := s.watch(widgetPath + "?watch=1&resourceVersion=" + start + "&" + shardQuery(shard))
			for _, name := range names {
				w.expect("ADDED", name)
			}
			for i, name := range all {
				s.patch(widgetPath+"/"+name, fmt.Sprintf(`{"metadata":{"labels":{"n":"%d-%d"}}}`, nth, i))
				if slices.Contains(names, name) {
					w.expect("MODIFIED", name)
					changes.expect("MODIFIED", name)
				}
			}
			start = s.now()
			table := s.get(widgetPath+"?"+shardQuery(shard), "Accept", tableAs)
			require.Len(t, table.rows(), len(names))
			require.Equal(t, shard, table.at("metadata", "shardInfo", "selector"))
		}
		slices.Sort(found)
		require.Equal(t, all, found)
		require.Equal(t, all, s.get(widgetPath+"?"+shardQuery(lowShard+" || "+highShard)).names())
		require.Nil(t, s.get(widgetPath+"?shardSelector=").at("metadata", "shardInfo"))
		for _, query := range []string{"", "watch=1&"} {
			s.get(widgetPath+"?"+query+shardQuery("shardRange(object.metadata.name, '0x', '')")).refused(400, "BadRequest", "invalid shard selector")
		}
	}, kindwright.Kubernetes{FeatureGates: "ShardedListAndWatch=true"})
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(4)
		list := s.get(widgetPath + "?shardSelector=x")
		require.Len(t, list.names(), 4, "without the gate the parameter is unknown")
		require.Nil(t, list.at("metadata", "shardInfo"))
	})
}
