package table

import "github.com/kindwright/kindwright/meta"

// Metadata writes one response with objects reduced to their metadata. It is not safe for
// concurrent use. Make it with [NewMetadata].
//
// To write a list, call AppendHead, AppendItem for each object, and AppendTail. To write a single
// object or the object of a watch event, call AppendObject.
//
// Source: TABLE-10.
type Metadata struct {
	apiVersion string
	object     []byte // the start of an object
	root       node
	finder     finder
	items      int
}

// NewMetadata returns a writer for documents with the given apiVersion. Empty means
// DefaultAPIVersion.
func NewMetadata(apiVersion string) *Metadata {
	if apiVersion == "" {
		apiVersion = DefaultAPIVersion
	}
	m := &Metadata{apiVersion: apiVersion, object: metadataHead(apiVersion), finder: finder{found: make([][]byte, 1)}}
	m.root.at("metadata").slots = []int{slotMetadata}
	return m
}

// AppendObject appends the PartialObjectMetadata of an object. It returns an error, and dst
// unchanged, if the text is not an object that the server wrote.
func (m *Metadata) AppendObject(dst, object []byte) ([]byte, error) {
	if err := m.finder.find(object, &m.root); err != nil {
		return dst, err
	}
	return appendMetadata(dst, m.object, m.finder.found[slotMetadata]), nil
}

// AppendHead appends a PartialObjectMetadataList up to its first item.
func (m *Metadata) AppendHead(dst []byte) []byte {
	m.items = 0
	return append(appendType(dst, "PartialObjectMetadataList", m.apiVersion), `,"items":[`...)
}

// AppendItem appends the next item of a list. Errors are those of AppendObject.
func (m *Metadata) AppendItem(dst, object []byte) ([]byte, error) {
	start := len(dst)
	if m.items > 0 {
		dst = append(dst, ',')
	}
	dst, err := m.AppendObject(dst, object)
	if err != nil {
		return dst[:start], err
	}
	m.items++
	return dst, nil
}

// AppendTail appends the end of a list with its metadata.
func (m *Metadata) AppendTail(dst []byte, list meta.ListMeta) ([]byte, error) {
	return appendTail(dst, list)
}

// metadataHead returns a PartialObjectMetadata up to its metadata.
func metadataHead(apiVersion string) []byte {
	return append(appendType(nil, "PartialObjectMetadata", apiVersion), `,"metadata":`...)
}

func appendMetadata(dst, head, metadata []byte) []byte {
	dst = append(dst, head...)
	if len(metadata) == 0 {
		metadata = []byte("{}")
	}
	return append(append(dst, metadata...), '}')
}
