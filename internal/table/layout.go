package table

import (
	"fmt"
	"slices"

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
	kinds       []cellKind
	root        *node
}

// New prepares the columns of a kind (TABLE-07). Without columns there are two: Name and Created At (TABLE-05). A kind whose
// columns have no name among them, that is none with the format "name", gets one in front.
func New(columns []openapi.Column) (*Layout, error) {
	columns = complete(columns)
	l := &Layout{root: &node{}}
	l.root.at("metadata").slots = []int{slotMetadata}
	l.root.at("metadata", "resourceVersion").slots = []int{slotVersion}
	definitions := make([]meta.TableColumnDefinition, len(columns))
	for i, c := range columns {
		if c.Name == "" || c.Type == "" || len(c.Path) == 0 {
			return nil, fmt.Errorf("column %d %q: name, type and path are required (TABLE-03)", i, c.Name)
		}
		definitions[i] = meta.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority}
		l.kinds = append(l.kinds, kindOf(c.Type, c.Name))
		n := l.root.at(c.Path...)
		n.slots = append(n.slots, slotColumns+i)
	}
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
	return finder{found: make([][]byte, slotColumns+len(l.kinds))}
}
