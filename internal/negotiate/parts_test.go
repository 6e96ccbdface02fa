package negotiate

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
)

// Any gzip reader decodes a response made of parts to the concatenated parts.
func TestGZIP_01_PartsAreOneBody(t *testing.T) {
	o := &Output{Compress: true}
	random.Check(t, func(t *random.T) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		a := o.Start(w, r, Result{}, http.StatusOK)
		require.True(t, a.Parts(1))
		var want bytes.Buffer
		for range random.Range(0, 6).Draw(t, "parts") {
			text := []byte(strings.Repeat(random.String().Draw(t, "text"), random.Range(0, 400).Draw(t, "times")))
			part, err := o.PackPart(text)
			require.NoError(t, err)
			for range random.Range(1, 3).Draw(t, "again") {
				want.Write(text)
				require.NoError(t, a.WritePart(part))
			}
		}
		require.NoError(t, a.Close())
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		reader, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		got, err := io.ReadAll(reader) // also verifies checksum and length
		require.NoError(t, err)
		require.Equal(t, want.String(), string(got))
	})
}

func TestGZIP_04_PartsOnlyForThoseWhoTakeThem(t *testing.T) {
	for name, c := range map[string]struct {
		output   *Output
		encoding string
		form     Result
		length   int
		want     bool
	}{
		"taken":            {&Output{Compress: true}, "gzip", Result{}, 1, true},
		"not asked for":    {&Output{Compress: true}, "", Result{}, 1, false},
		"turned off":       {&Output{}, "gzip", Result{}, 1, false},
		"below threshold":  {&Output{Compress: true, Threshold: 100}, "gzip", Result{}, 100, false},
		"above threshold":  {&Output{Compress: true, Threshold: 100}, "gzip", Result{}, 101, true},
		"to be indented":   {&Output{Compress: true}, "gzip", Result{Pretty: true}, 1, false},
		"to be made YAML":  {&Output{Compress: true}, "gzip", Result{MediaType: YAML}, 1, false},
		"other encodings":  {&Output{Compress: true}, "br", Result{}, 1, false},
		"refused outright": {&Output{Compress: true}, "gzip;q=0", Result{}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.encoding != "" {
				r.Header.Set("Accept-Encoding", c.encoding)
			}
			w := httptest.NewRecorder()
			a := c.output.Start(w, r, c.form, http.StatusOK)
			defer a.Abort()
			require.Equal(t, c.want, a.Parts(c.length))
			require.Equal(t, c.want, a.Started())
		})
	}
}
