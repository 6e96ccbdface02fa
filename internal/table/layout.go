package table

import (
	"fmt"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// createdAt is the name of the column for creation times, which kinds without columns of their own
// have.
//
// Source: TABLE-05.
const createdAt = "Created At"

// The slots that every layout has. Those of the columns follow.
const (
	slotMetadata = iota
	slotVersion  // metadata.resourceVersion
	slotColumns
)

// Layout holds the compiled columns of a kind. It is immutable and safe for concurrent use.
type Layout struct {
	definitions []byte // JSON of the column definitions
	columns     []column
	slots       int
	root        *node
	managed     bool // a column shows part of the managed fields
	changing    bool // the cells of a column change over time in another way than by ages
}

// A column computes the cells of one column, either from the value in one slot or with a function
// from several.
type column struct {
	kind        cellKind
	name        string
	first, last int // its slots: first inclusive, last exclusive
	cell        func(now time.Time, values []any) any
}

// New compiles the columns of a kind. Without columns it uses Name and Created At. If no column has
// the format "name", it prepends a name column.
//
// Source: TABLE-05, TABLE-07.
func New(columns []openapi.Column) (*Layout, error) {
	columns = complete(columns)
	l := &Layout{root: &node{}, slots: slotColumns}
	l.root.at("metadata").slots = []int{slotMetadata}
	l.root.at("metadata", "resourceVersion").slots = []int{slotVersion}
	definitions := make([]meta.TableColumnDefinition, len(columns))
	for i, c := range columns {
		paths := c.Paths
		if c.Cell == nil {
			paths = [][]string{c.Path}
		}
		if c.Name == "" || c.Type == "" || len(paths) == 0 || c.Cell == nil && len(c.Path) == 0 {
			return nil, fmt.Errorf("column %d %q: name, type and path must be set", i, c.Name)
		}
		definitions[i] = meta.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority}
		l.columns = append(l.columns, column{kind: kindOf(c.Type, c.Name), name: c.Name, first: l.slots, last: l.slots + len(paths), cell: c.Cell})
		l.changing = l.changing || c.Cell != nil && !c.Lasting
		for _, path := range paths {
			n := l.root.at(path...)
			n.slots = append(n.slots, l.slots)
			l.slots++
		}
	}
	l.managed = l.root.at("metadata").child([]byte(`"managedFields"`)) != nil
	var err error
	if l.definitions, err = json.Marshal(definitions); err != nil {
		return nil, fmt.Errorf("column definitions: %w", err)
	}
	return l, nil
}

func complete(columns []openapi.Column) []openapi.Column {
	name := openapi.Column{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}}
	if len(columns) == 0 {
		created := openapi.Column{Name: createdAt, Type: "date", Description: "When the object was created.", Path: []string{"metadata", "creationTimestamp"}}
		return []openapi.Column{name, created}
	}
	if slices.ContainsFunc(columns, func(c openapi.Column) bool { return c.Format == "name" }) {
		return columns
	}
	return slices.Insert(slices.Clone(columns), 0, name)
}

// finder returns a finder for the values of the layout.
func (l *Layout) finder() finder {
	return finder{found: make([][]byte, l.slots)}
}
