package protobuf

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func TestLists(t *testing.T) {
	d := describe[meta.PartialObjectMetadata](t)
	whole := describe[meta.PartialObjectMetadataList](t)
	remaining, none := int64(300), (*int64)(nil)
	shard := &meta.ShardInfo{Selector: "shardRange(object.metadata.uid, '0x0', '0x8')"}
	for _, c := range []struct{ items, size int }{{0, 0}, {1, 0}, {3, 200}, {200, 1000}, {2, 5 << 20}} {
		for _, remains := range []*int64{none, &remaining} {
			var objects []string
			var items []byte
			for i := range c.items {
				objects = append(objects, `{"metadata":{"name":"`+strings.Repeat("x", c.size+i)+`"}}`)
				var err error
				items, err = d.AppendItem(items, []byte(objects[i]))
				require.NoError(t, err)
			}
			head := ListHead{
				APIVersion: "v1", Kind: "WidgetList", ItemBytes: len(items),
				Metadata: meta.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: remains},
			}
			if c.items == 3 {
				head.Metadata.ShardInfo = shard
			}
			got := AppendTail(append(head.Append(nil), items...))

			metadata := `{"continue":"more","resourceVersion":"7"}`
			if remains != nil {
				metadata = `{"continue":"more","remainingItemCount":300,"resourceVersion":"7"}`
			}
			if c.items == 3 {
				metadata = metadata[:len(metadata)-1] + `,"shardInfo":{"selector":"` + shard.Selector + `"}}`
			}
			want, err := whole.AppendObject(nil, "v1", "WidgetList", []byte(`{"items":[`+strings.Join(objects, ",")+`],"metadata":`+metadata+`}`))
			require.NoError(t, err)
			require.Equal(t, want, got, "%d items", c.items)
		}
	}
	before := []byte("before")
	got, err := d.AppendItem(before, []byte(`{"metadata":1}`))
	require.EqualError(t, err, "protobuf: metadata: must be an object")
	require.Equal(t, before, got)
}
