package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/bbolt"
)

// What was acknowledged is there after the process was killed, and nothing that was refused.
func TestKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	m := newModel()
	for i := range *kills {
		m.run(t, self(t), path, killAfter(i))
		require.Empty(t, m.verify(path), "kill %d", i)
	}
	require.Positive(t, m.acks)
	row(t, "kill -9", fmt.Sprintf("%d kills, %d acknowledged writes: 0 lost", *kills, m.acks), controlOfModel(t, path, m))
}

// controlOfModel shows that the model notices a lost write and an invented one.
func controlOfModel(t *testing.T, path string, m *model) string {
	for key, n := range m.acked {
		lost := newModel()
		lost.acked[key] = n + keysOfWriter
		require.NotEmpty(t, lost.verify(path))
		break
	}
	require.NotEmpty(t, newModel().verify(path))
	return "a write that is not there, and one that nobody made, are found"
}

// A second process is told that the file is in use, and the first one goes on.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	m := newModel()
	m.run(t, self(t), path, func(p *os.Process) {
		_, err := bbolt.Open(path)
		if err == nil {
			t.Error("two processes have the file open")
		} else {
			require.ErrorIs(t, err, bbolt.ErrInUse)
		}
		_ = p.Kill()
	})
	require.Empty(t, m.verify(path))
	row(t, "two processes", "the second is refused", "after the first is killed, it opens")
}
