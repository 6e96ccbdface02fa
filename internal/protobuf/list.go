package protobuf

import (
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// Field numbers of a list and of its metadata.
const (
	numberMetadata  = 1
	numberListItems = 2

	numberSelfLink        = 1
	numberResourceVersion = 2
	numberContinue        = 3
	numberRemaining       = 4
	numberShardInfo       = 5

	numberShardSelector = 1
)

// ListHead is the start of the document of a list. The document begins with its length, so the items
// must be encoded first.
type ListHead struct {
	APIVersion, Kind string // of the list, such as "v1" and "NamespaceList"
	Metadata         meta.ListMeta
	// ItemBytes is the size of all items as [Descriptor.AppendItem] encodes them.
	ItemBytes int
}

// Append appends the document up to its first item. The caller then appends the items and
// [AppendTail].
func (h *ListHead) Append(dst []byte) []byte {
	m := &h.Metadata
	own := textSize(m.SelfLink) + textSize(m.ResourceVersion) + textSize(m.Continue)
	if m.RemainingItemCount != nil {
		own += 1 + protowire.SizeVarint(uint64(*m.RemainingItemCount))
	}
	shard := 0
	if m.ShardInfo != nil {
		shard = textSize(m.ShardInfo.Selector)
		own += 1 + protowire.SizeVarint(uint64(shard)) + shard
	}
	dst = appendHead(dst, h.APIVersion, h.Kind)
	dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeVarint(uint64(own))+own+h.ItemBytes))
	dst = protowire.AppendVarint(protowire.AppendKey(dst, numberMetadata, protowire.Bytes), uint64(own))
	dst = appendText(dst, numberSelfLink, m.SelfLink)
	dst = appendText(dst, numberResourceVersion, m.ResourceVersion)
	dst = appendText(dst, numberContinue, m.Continue)
	if m.RemainingItemCount != nil {
		dst = protowire.AppendVarint(protowire.AppendKey(dst, numberRemaining, protowire.Varint), uint64(*m.RemainingItemCount))
	}
	if m.ShardInfo != nil {
		dst = protowire.AppendVarint(protowire.AppendKey(dst, numberShardInfo, protowire.Bytes), uint64(shard))
		dst = appendText(dst, numberShardSelector, m.ShardInfo.Selector)
	}
	return dst
}

// AppendItem appends an object as an item of a list.
func (d *Descriptor) AppendItem(dst, object []byte) ([]byte, error) {
	start := len(dst)
	dst, body := reserve(protowire.AppendKey(dst, numberListItems, protowire.Bytes), len(object))
	dst, err := d.AppendMessage(dst, object)
	if err != nil {
		return dst[:start], err
	}
	return settle(dst, body, len(object)), nil
}
