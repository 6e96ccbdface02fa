package crd

import (
	"crypto/sha256"
	"hash"
	"maps"
	"slices"
	"sync"
	"weak"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// memory knows the schemas of documents that have been compiled without a problem, as long as somebody
// uses them. A definition is compiled by the request that writes it, and not again by the controller
// that serves it, nor when it is replaced by another with the same schema. Definitions with the same
// schema share it.
type memory struct {
	mu      sync.Mutex
	schemas map[digest]weak.Pointer[openapi.Schema]
	sweep   int // the number of entries at which those of freed schemas are deleted

	awaited []awaited // what was compiled last, for the controller
}

type digest = [sha256.Size]byte

// awaited is a schema that the controller is about to ask for.
type awaited struct {
	of     digest
	schema *openapi.Schema
	rules  *cel.Rules // nobody else keeps them until the kind is served
	bytes  int        // of its document
}

// maxAwaited limits the bytes of the documents whose schemas wait for the controller. Schemas of
// definitions that are not stored after all, as in a dry run, stay until others take their place.
const maxAwaited = 1 << 20

const minSweep = 64

// digestOf returns what a document is known by, and its length.
func digestOf(document map[string]any) (digest, int) {
	d := digester{to: sha256.New()}
	d.add(document)
	if d.err != nil { // not a tree; it is not compiled either
		return digest{}, 0
	}
	return digest(d.to.Sum(nil)), d.length
}

// digester hashes the JSON of a tree, large objects member by member: the whole text would take several
// times its length.
type digester struct {
	to     hash.Hash
	length int
	room   []byte
	err    error
}

// large is how many members an object has whose text is not made at once, and those around it.
const large = 64

func (d *digester) add(v any) {
	object, ok := v.(map[string]any)
	if !ok || len(object) < large && !holdsObjects(object) {
		if d.room, d.err = json.AppendTree(d.room[:0], v); d.err == nil {
			d.write(d.room)
		}
		return
	}
	before := "{"
	names := slices.AppendSeq(make([]string, 0, len(object)), maps.Keys(object))
	slices.Sort(names)
	for _, name := range names {
		d.write([]byte(before))
		before = ","
		if d.add(name); d.err != nil {
			return
		}
		d.write([]byte(":"))
		if d.add(object[name]); d.err != nil {
			return
		}
	}
	d.write([]byte("}"))
}

func (d *digester) write(text []byte) {
	_, _ = d.to.Write(text) // it never fails
	d.length += len(text)
}

func holdsObjects(object map[string]any) bool {
	for _, v := range object {
		if _, is := v.(map[string]any); is {
			return true
		}
	}
	return false
}

// find returns the schema of a document, or nil.
func (m *memory) find(of digest) *openapi.Schema {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.schemas[of].Value()
}

// take is find for the controller, which keeps the schema itself.
func (m *memory) take(of digest) (*openapi.Schema, *cel.Rules) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range m.awaited {
		if a.of == of {
			m.awaited = slices.Delete(m.awaited, i, i+1)
			return a.schema, a.rules
		}
	}
	return m.schemas[of].Value(), nil
}

// note remembers the schema of a document.
func (m *memory) note(of digest, schema *openapi.Schema) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(of, schema)
}

// await is note for a schema that nobody uses yet.
func (m *memory) await(next awaited) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(next.of, next.schema)
	m.awaited = slices.DeleteFunc(m.awaited, func(a awaited) bool { return a.of == next.of }) // of another version
	m.awaited = append(m.awaited, next)
	for sum, i := 0, len(m.awaited)-1; i >= 0; i-- {
		if sum += m.awaited[i].bytes; sum > maxAwaited {
			m.awaited = slices.Delete(m.awaited, 0, i+1)
			break
		}
	}
}

func (m *memory) keep(of digest, schema *openapi.Schema) {
	if m.schemas == nil {
		m.schemas, m.sweep = map[digest]weak.Pointer[openapi.Schema]{}, minSweep
	}
	m.schemas[of] = weak.Make(schema)
	if len(m.schemas) < m.sweep {
		return
	}
	for of, schema := range m.schemas {
		if schema.Value() == nil {
			delete(m.schemas, of)
		}
	}
	m.sweep = max(minSweep, 2*len(m.schemas))
}
