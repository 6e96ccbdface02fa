package table

import (
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// DefaultAPIVersion is the default apiVersion of tables and metadata.
const DefaultAPIVersion = "meta.k8s.io/v1"

// Options configure a Writer. The zero value is valid.
type Options struct {
	// APIVersion is the apiVersion of the Table: meta.k8s.io/v1 (TABLE-02) or meta.k8s.io/v1beta1
	// (TABLE-11). Empty means DefaultAPIVersion.
	APIVersion string

	// Include selects what each row contains besides its cells. Empty means the metadata
	// (TABLE-08).
	Include meta.IncludeObjectPolicy

	// Now returns the time to which ages are relative. Nil means time.Now.
	Now func() time.Time

	// Failed is told the first panic of a column's function, unless it is nil.
	Failed func(error)
}

// Writer writes the tables of one response. It is not safe for concurrent use. Objects are passed
// as JSON, as an entry of package watch appends it. Writer does not retain it.
//
// To write a list, call AppendHead, AppendRow for each object, and AppendTail. To write a single
// object or each event of a watch, call AppendObject.
type Writer struct {
	layout  *Layout
	options Options
	finder  finder
	rows    int
	now     time.Time      // when the list started
	object  []byte         // the start of the metadata of a row
	values  []decodedValue // of the present row
	steps   int            // that its cells may still take
	failed  bool           // a function has panicked

	keeping bool      // ages are left out
	start   int       // where the rows that are kept begin
	ages    []keptAge // of them
}

// Writer returns a writer for one response.
func (l *Layout) Writer(o Options) *Writer {
	if o.APIVersion == "" {
		o.APIVersion = DefaultAPIVersion
	}
	if o.Include == "" {
		o.Include = meta.IncludeMetadata
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Writer{layout: l, options: o, finder: l.finder(), object: metadataHead(o.APIVersion), now: o.Now()}
}

// Managed sets the position of the managed fields in the next object, including the comma after
// them. They are large and rarely shown, so the scan skips them unless a column needs them.
func (w *Writer) Managed(from, to int) {
	if !w.layout.managed {
		w.finder.from, w.finder.to = from, to
	}
}

// AppendHead appends a table up to its first row.
func (w *Writer) AppendHead(dst []byte) []byte {
	w.rows, w.now = 0, w.options.Now()
	dst = appendType(dst, "Table", w.options.APIVersion)
	dst = append(dst, `,"columnDefinitions":`...)
	dst = append(dst, w.layout.definitions...)
	return append(dst, `,"rows":[`...)
}

// AppendRow appends the row of an object, preceded by a comma unless it is the first. It returns an
// error, and dst unchanged, if the text is not an object that the server wrote.
//
// Source: TABLE-04.
func (w *Writer) AppendRow(dst, object []byte) ([]byte, error) {
	start := len(dst)
	if w.rows > 0 {
		dst = append(dst, ',')
	}
	dst, err := w.AppendSoleRow(dst, object)
	if err != nil {
		return dst[:start], err
	}
	w.rows++
	return dst, nil
}

// AppendSoleRow appends the row of an object without a comma. Errors are those of AppendRow.
func (w *Writer) AppendSoleRow(dst, object []byte) ([]byte, error) {
	if err := w.finder.find(object, w.layout.root); err != nil {
		return dst, err
	}
	return w.appendRow(dst, object), nil
}

// Lasting reports whether rows only depend on the object and on ages. Such rows can be kept.
func (w *Writer) Lasting() bool { return !w.layout.changing }

// Include returns what each row contains besides its cells.
func (w *Writer) Include() meta.IncludeObjectPolicy { return w.options.Include }

// AppendTail appends the end of a table with the metadata of the list (TABLE-09).
func (w *Writer) AppendTail(dst []byte, list meta.ListMeta) ([]byte, error) {
	return appendTail(dst, list)
}

// AppendObject appends a complete table with one row, for a get or a watch event. The resource
// version of the table is that of the object. definitions is false for all events of a watch but
// the first, which do not repeat the column definitions.
//
// Source: WATCH-33.
func (w *Writer) AppendObject(dst, object []byte, definitions bool) ([]byte, error) {
	if err := w.finder.find(object, w.layout.root); err != nil {
		return dst, err
	}
	dst = appendType(dst, "Table", w.options.APIVersion)
	dst = append(dst, `,"metadata":{`...)
	if version := w.finder.found[slotVersion]; len(version) > 0 {
		dst = append(dst, `"resourceVersion":`...)
		dst = append(dst, version...)
	}
	dst = append(dst, `},"columnDefinitions":`...)
	if definitions {
		dst = append(dst, w.layout.definitions...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"rows":[`...)
	w.now = w.options.Now()
	dst = w.appendRow(dst, object)
	return append(dst, `]}`...), nil
}

// appendRow appends the row of the object that the finder has scanned.
func (w *Writer) appendRow(dst, object []byte) []byte {
	dst = append(dst, `{"cells":[`...)
	start, room := len(dst), freeText+textPerByte*len(object)
	w.steps = freeSteps + stepsPerByte*len(object)
	for i := range w.layout.columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w.appendBounded(dst, &w.layout.columns[i], start, room)
	}
	clear(w.values)
	w.values = w.values[:0]
	dst = append(dst, `],"object":`...)
	switch w.options.Include {
	case meta.IncludeNone:
		dst = append(dst, "null"...)
	case meta.IncludeObject:
		dst = append(dst, object...)
	default:
		dst = appendMetadata(dst, w.object, w.finder.found[slotMetadata])
	}
	return append(dst, '}')
}

// appendType appends the start of an object with kind and apiVersion.
func appendType(dst []byte, kind, apiVersion string) []byte {
	dst = append(dst, `{"kind":`...)
	dst = json.AppendString(dst, kind)
	dst = append(dst, `,"apiVersion":`...)
	return json.AppendString(dst, apiVersion)
}

// appendTail ends a list of rows or items. The metadata is last, because it may state where the
// list was cut off.
func appendTail(dst []byte, list meta.ListMeta) ([]byte, error) {
	start := len(dst)
	dst, err := json.Append(append(dst, `],"metadata":`...), list)
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '}'), nil
}
