package webhook

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/authz"
)

// digest identifies a question. It is keyed, so that nobody can compute it.
type digest [sha256.Size]byte

// digest returns the digest of the question about a request. Lengths and counts are part of it, so no
// two questions look alike. It does not allocate for a usual request.
func (w *Webhook) digest(a *authz.Attributes) digest {
	var room [1024]byte
	b := append(room[:0], w.secret[:]...)
	b = texts(b, a.User.Name, a.User.UID)
	b = texts(b, a.User.Groups...)
	b = binary.AppendUvarint(b, uint64(len(a.User.Extra)))
	if len(a.User.Extra) == 1 {
		for name, values := range a.User.Extra {
			b = texts(texts(b, name), values...)
		}
	} else if len(a.User.Extra) > 1 {
		for _, name := range slices.Sorted(maps.Keys(a.User.Extra)) {
			b = texts(texts(b, name), a.User.Extra[name]...)
		}
	}
	b = texts(b, a.Verb, a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name, a.Path)
	kind := byte(0)
	if a.ResourceRequest {
		kind = 1
	}
	b = append(b, kind)
	if !a.Fields.Empty() {
		b = texts(b, a.Fields.String())
	}
	b = append(b, 0)
	if !a.Labels.Empty() {
		b = texts(b, a.Labels.String())
	}
	return sha256.Sum256(b)
}

// texts appends how many texts there are, and each with its length.
func texts(b []byte, all ...string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, text := range all {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}
