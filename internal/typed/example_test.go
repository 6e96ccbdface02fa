package typed_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/typed"
)

// A field that the struct does not know survives a change.
func ExampleChange() {
	type lamp struct {
		Watts int64 `json:"watts"`
	}
	t := map[string]any{"watts": int64(60), "socket": "E27"}
	out, err := typed.Change(t, func(l *lamp) error { l.Watts = 40; return nil })
	fmt.Println(out, err)
	// Output: map[socket:E27 watts:40] <nil>
}
