package table

import (
	"fmt"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// createdAt is the name of the column of creation times that every kind has that brings no columns (TABLE-05).
const createdAt = "Created At"

// The slots of the finder that every layout has; those of the columns follow.
const (
	slotMetadata = iota
	slotVersion  // metadata.resourceVersion
	slotColumns
)

// Layout is the columns of a kind, ready for use. It is immutable and may be used by many goroutines.
type Layout struct {
	definitions []byte // JSON of the column definitions
	columns     []column
	slots       int
	root        *node
	managed     bool // a column shows something of the managed fields
	aging       bool // a column tells how long ago objects were created
	changing    bool // a column changes with time in another way
}

// A column is how the cells of one column are made: of the value in one slot, or by a function of the values in several.
type column struct {
	kind        cellKind
	first, last int // the slots of its values, without the last
	cell        func(now time.Time, values []any) any
}

// New prepares the columns of a kind (TABLE-07). Without columns there are two: Name and Created At (TABLE-05). A kind whose
// columns have no name among them, that is none with the format "name", gets one in front.
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
		if c.Name == "" || c.Type == "" || len(paths) == 0 || slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 }) {
			return nil, fmt.Errorf("column %d %q: name, type and path are required (TABLE-03)", i, c.Name)
		}
		definitions[i] = meta.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority}
		l.columns = append(l.columns, column{kind: kindOf(c.Type, c.Name), first: l.slots, last: l.slots + len(paths), cell: c.Cell})
		age := kindOf(c.Type, c.Name) == ageCell
		l.aging = l.aging || age
		l.changing = l.changing || c.Cell != nil || age && !slices.Equal(c.Path, []string{"metadata", "creationTimestamp"})
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
