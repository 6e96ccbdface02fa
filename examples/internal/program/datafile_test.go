package program

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const dataFile = "kindwright.db"

// stopped makes a data directory with a few objects and returns it after the server has ended.
func stopped(t *testing.T) string {
	t.Helper()
	s := serveIn(t, t.TempDir())
	kube := admin(t, s.kubeconfig)
	for _, name := range []string{"one", "marked", "three"} {
		kube.create(t, widgetsPath, widget(name))
	}
	kube.http.CloseIdleConnections() // otherwise the server waits a second for them
	require.Equal(t, 0, s.stop())
	return s.dir
}

func TestD7_SecondServerOnTheSameDataDirectory(t *testing.T) {
	s := serveIn(t, t.TempDir())
	kube := admin(t, s.kubeconfig)
	kube.create(t, widgetsPath, widget("before"))
	config, err := os.ReadFile(s.kubeconfig)
	require.NoError(t, err)

	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+s.dir)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, filepath.Join(s.dir, dataFile))
	assert.Contains(t, r.errOut, "in use")
	assert.Empty(t, r.out)

	kube.create(t, widgetsPath, widget("after"))
	assert.Equal(t, "after before", kube.names(t, widgetsPath))
	again, err := os.ReadFile(s.kubeconfig)
	require.NoError(t, err)
	assert.Equal(t, string(config), string(again))
	assert.Equal(t, 0, s.stop())
	assert.Equal(t, "after before", admin(t, serveIn(t, s.dir).kubeconfig).names(t, widgetsPath))
}

// newerFormat changes the format record of a data file to a format that does not exist yet. The
// file can contain the record in several places, one of which is in use.
func newerFormat(t *testing.T, data []byte) []byte {
	t.Helper()
	const magic = "kindwright"
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	changed := 0
	for at := 0; at+len(magic)+8 <= len(data); at++ {
		record, sum := data[at:at+len(magic)+4], data[at+len(magic)+4:at+len(magic)+8]
		if !bytes.HasPrefix(record, []byte(magic)) || binary.BigEndian.Uint32(sum) != crc32.Checksum(record, castagnoli) {
			continue
		}
		binary.BigEndian.PutUint32(record[len(magic):], 99)
		binary.BigEndian.PutUint32(sum, crc32.Checksum(record, castagnoli))
		changed++
	}
	require.Positive(t, changed, "the file has no format record")
	return data
}

func TestD8_DataFileThatCannotBeServed(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*testing.T, []byte) []byte
		says  string
	}{
		"of a newer format": {newerFormat, "newer format"},
		"a value has changed": {func(t *testing.T, data []byte) []byte {
			require.Positive(t, bytes.Count(data, []byte("marked")))
			return bytes.ReplaceAll(data, []byte("marked"), []byte("masked"))
		}, "damaged"},
		"cut off": {func(_ *testing.T, data []byte) []byte { return data[:4*4096] }, "damaged"}, // of what lies far behind, none may be in use
		"empty":   {func(*testing.T, []byte) []byte { return nil }, "damaged"},
		"zeros at the beginning": {func(_ *testing.T, data []byte) []byte {
			clear(data[:4096])
			return data
		}, "damaged"},
		"zeros behind the beginning": {func(_ *testing.T, data []byte) []byte {
			clear(data[2*4096:])
			return data
		}, "damaged"},
		"something else": {func(*testing.T, []byte) []byte { return bytes.Repeat([]byte("a letter home\n"), 1000) }, "not a store"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := stopped(t)
			path := filepath.Join(dir, dataFile)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, c.spoil(t, data), 0o600))
			before := tree(t, dir)

			r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+dir)
			assert.Equal(t, exitFailure, r.code)
			assert.Contains(t, r.errOut, path)
			assert.Contains(t, r.errOut, c.says)
			assert.Empty(t, r.out)
			assert.Equal(t, before, tree(t, dir), "what can be read of it is for those who mend it")
		})
	}
}

func TestD9_DataFileThatIsALinkIsRefused(t *testing.T) {
	dir := stopped(t)
	path := filepath.Join(dir, dataFile)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.db")
	require.NoError(t, os.Rename(path, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, path))
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+dir)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, path)
	assert.Contains(t, r.errOut, "regular file")
}

// A data file that was moved away is a whole store: it can be served again when it is moved back.
func TestDataFileCanBeMovedAwayAndBack(t *testing.T) {
	dir := stopped(t)
	path := filepath.Join(dir, dataFile)
	require.NoError(t, os.Rename(path, path+".kept"))
	s := serveIn(t, dir)
	assert.Empty(t, admin(t, s.kubeconfig).names(t, widgetsPath))
	assert.Equal(t, 0, s.stop())
	require.NoError(t, os.Rename(path+".kept", path))
	kube := admin(t, serveIn(t, dir).kubeconfig)
	assert.Equal(t, "marked one three", kube.names(t, widgetsPath))
	assert.Equal(t, http.StatusOK, kube.do(t, "GET", widgetsPath+"/marked", "").code)
}

func TestD6_CheckDataVerifiesTheStore(t *testing.T) {
	dir := stopped(t)
	var out, errOut bytes.Buffer
	require.Equal(t, 0, command(t.Context(), []string{"--check-data", "--data-dir=" + dir}, &out, &errOut), errOut.String())
	require.Contains(t, out.String(), filepath.Join(dir, dataFile)+" is intact: ")
	path := filepath.Join(dir, dataFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(data, []byte("marked"))
	require.Positive(t, at)
	for i := bytes.Index(data[at:], []byte("marked")); i >= 0; i = bytes.Index(data[at:], []byte("marked")) {
		data[at+i] = 'M' // in every copy, as some are no longer in use
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.Equal(t, exitFailure, command(t.Context(), []string{"--check-data", "--data-dir=" + dir}, &out, &errOut))
	require.Contains(t, errOut.String(), "damaged")

	empty := t.TempDir()
	require.Equal(t, exitFailure, command(t.Context(), []string{"--check-data", "--data-dir=" + empty}, &out, &errOut))
	require.NoFileExists(t, filepath.Join(empty, dataFile), "it makes nothing")
}
