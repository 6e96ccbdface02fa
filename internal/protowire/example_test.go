package protowire_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/protowire"
)

func Example() {
	message := protowire.AppendKey(nil, 1, protowire.Bytes)
	message = protowire.AppendBytes(message, "widget")
	message = protowire.AppendKey(message, 3, protowire.Varint)
	message = protowire.AppendVarint(message, 300)
	fmt.Printf("% x\n", message)

	for rest := message; len(rest) > 0; {
		field, after, err := protowire.Next(rest)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %s %d %q\n", field.Number, field.Type, field.Value, field.Bytes)
		rest = after
	}
	_, _, err := protowire.Next([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x07}) // 2 GiB follow, it says
	fmt.Println(err)
	// Output:
	// 0a 06 77 69 64 67 65 74 18 ac 02
	// 1 bytes 0 "widget"
	// 3 varint 300 ""
	// the message ends early
}
