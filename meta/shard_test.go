package meta_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func shardOf(field, from, to string) string {
	return fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", field, from, to)
}

const (
	lowest  = "0x0000000000000000"
	middle  = "0x8000000000000000"
	highest = "0x10000000000000000"
)

// Every object is in exactly one of the shards that cover all hashes.
func TestShards(t *testing.T) {
	for _, field := range []string{"uid", "namespace"} {
		low, err := meta.ParseShards(shardOf(field, lowest, middle))
		require.NoError(t, err)
		high, err := meta.ParseShards("  " + strings.ReplaceAll(shardOf(field, middle, highest), " ", "") + " ")
		require.NoError(t, err)
		both, err := meta.ParseShards(low.String() + "||" + high.String())
		require.NoError(t, err)
		for i := range 1000 {
			uid, namespace := meta.UID(fmt.Sprint("uid-", i)), fmt.Sprint("ns-", i)
			h := fnv.New64a()
			_, _ = h.Write([]byte(map[string]string{"uid": string(uid), "namespace": namespace}[field]))
			require.Equal(t, h.Sum64() < 1<<63, low.Matches(uid, namespace))
			require.NotEqual(t, low.Matches(uid, namespace), high.Matches(uid, namespace))
			require.True(t, both.Matches(uid, namespace))
		}
		require.Equal(t, shardOf(field, lowest, middle)+" || "+shardOf(field, middle, highest), both.String())
	}
	var all *meta.Shards
	require.True(t, all.Matches("", ""))
	require.Empty(t, all.String())
}

func TestShards_Errors(t *testing.T) {
	for s, why := range map[string]string{
		"":  "is not a shardRange",
		"x": "is not a shardRange",
		"shardRange(object.metadata.uid, '0x', '0x8000000000000000')":                              "16 hexadecimal digits",
		shardOf("uid", "0x0", middle):                                                              "16 hexadecimal digits",
		shardOf("uid", "0x000000000000000A", middle):                                               "16 hexadecimal digits",
		shardOf("uid", "00000000000000000a", middle):                                               "16 hexadecimal digits",
		shardOf("uid", lowest, "0x10000000000000001"):                                              "16 hexadecimal digits",
		shardOf("uid", middle, middle):                                                             "must begin before its end",
		shardOf("uid", middle, lowest):                                                             "must begin before its end",
		shardOf("uid", highest, highest):                                                           "must begin before its end",
		shardOf("name", lowest, middle):                                                            "cannot be sharded by",
		"shardRange(object.metadata.uid, 0, 8)":                                                    "is not a quoted hash",
		"shardRange(object.metadata.uid, '0x0000000000000000')":                                    "takes 3 arguments, got 2",
		"shardRange(object.metadata.uid, 'a', 'b', 'c')":                                           "takes 3 arguments, got 4",
		shardOf("uid", lowest, middle) + " || " + shardOf("namespace", middle, highest):            "must use the same field",
		shardOf("uid", lowest, middle) + " && " + shardOf("uid", middle, highest):                  "takes 3 arguments",
		shardOf("uid", lowest, middle) + " ||":                                                     "is not a shardRange",
		strings.Repeat(shardOf("uid", lowest, middle)+"||", 1000) + shardOf("uid", lowest, middle): "at most 1000 ranges",
	} {
		_, err := meta.ParseShards(s)
		require.ErrorContains(t, err, why, s)
	}
}
