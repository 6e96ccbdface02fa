package json

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestS1_OthersRunWhileALongDocumentIsRead(t *testing.T) {
	var turns Turns
	yielded := 0
	for position := range 10*turnBytes + 1 {
		if turns.At(position) {
			yielded++
		}
	}
	require.Equal(t, 10, yielded)

	d := &decoder{scanner: scanner{data: []byte("[" + strings.Repeat("1,", turnBytes) + "1]")}, maxDepth: 1, left: 1 << 30}
	_, err := d.document()
	require.NoError(t, err)
	require.Greater(t, d.turns.last, turnBytes, "the decoder says where it is")
}
