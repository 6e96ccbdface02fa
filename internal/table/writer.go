package table

import (
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// DefaultAPIVersion is the apiVersion of the documents unless an answer says otherwise.
const DefaultAPIVersion = "meta.k8s.io/v1"

// Options say how an answer is written. The zero value is usable.
type Options struct {
	// APIVersion is that of the Table, such as meta.k8s.io/v1 (TABLE-02) or meta.k8s.io/v1beta1 (TABLE-11). Empty means
	// DefaultAPIVersion.
	APIVersion string

	// Include says what comes with each row. Empty means the metadata (TABLE-08).
	Include meta.IncludeObjectPolicy

	// Now tells the time that ages are counted from. Nil means time.Now.
	Now func() time.Time
}

// Writer writes the tables of one answer. It is for one goroutine. Objects are given as their JSON text, as an entry of
// package watch appends it; the text is not kept.
//
// A list is AppendHead, AppendRow for each object and AppendTail; an object, or each event of a watch, is AppendObject.
type Writer struct {
	layout  *Layout
	options Options
	finder  finder
	rows    int
	now     time.Time // when the list began
	object  []byte    // how the metadata of a row begin
}

// Writer returns a writer of one answer.
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

// Managed tells where the managed fields of the next object lie in its text, with the comma behind them. There is much in
// them, and nothing that most tables show.
func (w *Writer) Managed(from, to int) {
	if !w.layout.managed {
		w.finder.from, w.finder.to = from, to
	}
}

// AppendHead appends the beginning of a table, up to its first row.
func (w *Writer) AppendHead(dst []byte) []byte {
	w.rows, w.now = 0, w.options.Now()
	dst = appendType(dst, "Table", w.options.APIVersion)
	dst = append(dst, `,"columnDefinitions":`...)
	dst = append(dst, w.layout.definitions...)
	return append(dst, `,"rows":[`...)
}

// AppendRow appends the row of an object (TABLE-04), with a comma where it is not the first. An error says that the text is
// no object of ours; dst is then as it was.
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

// AppendSoleRow appends the row of an object without the comma between two. Its error is that of AppendRow.
func (w *Writer) AppendSoleRow(dst, object []byte) ([]byte, error) {
	if err := w.finder.find(object, w.layout.root); err != nil {
		return dst, err
	}
	return w.appendRow(dst, object), nil
}

// Lasting tells whether the row of an object changes with nothing but the object and its age.
func (w *Writer) Lasting() bool { return !w.layout.changing }

// AppendAge appends what the rows of this list say of the age of an object, nothing where they do not tell it.
func (w *Writer) AppendAge(dst []byte, created time.Time) []byte {
	if !w.layout.aging {
		return dst
	}
	return append(appendAge(dst, w.now.Sub(created)), ' ')
}

// Include says what comes with each row.
func (w *Writer) Include() meta.IncludeObjectPolicy { return w.options.Include }

// AppendTail appends the end of a table, with the metadata of the list (TABLE-09).
func (w *Writer) AppendTail(dst []byte, list meta.ListMeta) ([]byte, error) {
	return appendTail(dst, list)
}

// AppendObject appends a whole table of one row: the answer to a get, and the object of a watch event. The version of the
// table is that of the object. The events of a watch after the first repeat the column definitions no more (WATCH-33).
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

// appendRow appends the row of the object that the finder has just been through.
func (w *Writer) appendRow(dst, object []byte) []byte {
	dst = append(dst, `{"cells":[`...)
	for i, c := range w.layout.columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		if found := w.finder.found[c.first:c.last]; c.cell != nil {
			dst = appendMade(dst, c.cell, found, w.now)
		} else {
			dst = appendCell(dst, c.kind, found[0], w.now)
		}
	}
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

// appendType appends the beginning of an object, with kind and apiVersion.
func appendType(dst []byte, kind, apiVersion string) []byte {
	dst = append(dst, `{"kind":`...)
	dst = json.AppendString(dst, kind)
	dst = append(dst, `,"apiVersion":`...)
	return json.AppendString(dst, apiVersion)
}

// appendTail closes a list of rows or items. The metadata come last since they may name where the list was cut off.
func appendTail(dst []byte, list meta.ListMeta) ([]byte, error) {
	start := len(dst)
	dst, err := json.Append(append(dst, `],"metadata":`...), list)
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '}'), nil
}
