package table_test

import (
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// A list is written as a table, row by row.
func Example() {
	layout, err := table.New([]openapi.Column{
		{Name: "Size", Type: "integer", Path: []string{"spec", "size"}},
		{Name: "Age", Type: "date", Path: []string{"metadata", "creationTimestamp"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := layout.Writer(table.Options{Include: meta.IncludeNone, Now: func() time.Time { return noon }})

	answer := w.AppendHead(nil)
	for _, object := range []string{
		`{"kind":"Widget","metadata":{"creationTimestamp":"2026-11-21T11:15:00Z","name":"a"},"spec":{"size":3}}`,
		`{"kind":"Widget","metadata":{"creationTimestamp":"2026-11-18T08:00:00Z","name":"b"}}`,
	} {
		if answer, err = w.AppendRow(answer, []byte(object)); err != nil {
			fmt.Println(err)
			return
		}
	}
	answer, err = w.AppendTail(answer, meta.ListMeta{ResourceVersion: "7"})
	fmt.Println(string(answer), err)
	// Output:
	// {"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"The name of the object.","priority":0},{"name":"Size","type":"integer","format":"","description":"","priority":0},{"name":"Age","type":"date","format":"","description":"","priority":0}],"rows":[{"cells":["a",3,"45m"],"object":null},{"cells":["b",null,"3d4h"],"object":null}],"metadata":{"resourceVersion":"7"}} <nil>
}
