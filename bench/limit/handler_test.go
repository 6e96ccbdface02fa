package limit_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/bench/limit"
)

const things = "/apis/x.example.com/v1/namespaces/n/things"

func serve(t *testing.T, faults limit.Faults) (do func(method, path, body string) (int, string), url string) {
	server := httptest.NewServer(limit.New(faults))
	t.Cleanup(server.Close)
	return func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		res, err := server.Client().Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var answer bytes.Buffer
		_, err = answer.ReadFrom(res.Body)
		require.NoError(t, err)
		return res.StatusCode, answer.String()
	}, server.URL
}

func thing(name string) string { return fmt.Sprintf(`{"metadata":{"name":%q},"a":1}`, name) }

func TestObjectsComeBackAsTheyWereSent(t *testing.T) {
	do, _ := serve(t, limit.Faults{})
	code, body := do("POST", things, thing("a"))
	assert.Equal(t, 201, code)
	assert.Equal(t, `{"metadata":{"resourceVersion":"1","name":"a"},"a":1}`, body)
	code, _ = do("POST", things, thing("a"))
	assert.Equal(t, 409, code)
	_, _ = do("POST", things, thing("b"))
	code, body = do("PUT", things+"/b", `{"metadata":{"resourceVersion":"2","name":"b"},"a":2}`)
	assert.Equal(t, 200, code)
	assert.Equal(t, `{"metadata":{"resourceVersion":"3","name":"b"},"a":2}`, body)
	code, got := do("GET", things+"/b", "")
	assert.Equal(t, 200, code)
	assert.Equal(t, body, got)
	code, body = do("PATCH", things+"/b", `{"a":7}`)
	assert.Equal(t, 200, code)
	assert.Equal(t, `{"metadata":{"resourceVersion":"4","name":"b"},"a":2}`, body, "it does not merge")
	for range 2 { // assembled, then reused
		_, list := do("GET", things, "")
		assert.JSONEq(t, `{"kind":"List","metadata":{"resourceVersion":"4"},"items":[
			{"metadata":{"resourceVersion":"1","name":"a"},"a":1},{"metadata":{"resourceVersion":"4","name":"b"},"a":2}]}`, list)
	}
	code, _ = do("DELETE", things+"/a", "")
	assert.Equal(t, 200, code)
	code, _ = do("DELETE", things+"/a", "")
	assert.Equal(t, 404, code)
	code, _ = do("GET", things+"/a", "")
	assert.Equal(t, 404, code)
	_, list := do("GET", things+"?resourceVersion=0", "")
	assert.NotContains(t, list, `"a"},`)
	_, list = do("GET", things+"?limit=1", "")
	assert.JSONEq(t, `{"kind":"List","metadata":{"resourceVersion":"5"},"items":[]}`, list)
	_, list = do("GET", "/api/v1/namespaces/n/other", "")
	assert.JSONEq(t, `{"kind":"List","metadata":{"resourceVersion":"5"},"items":[]}`, list)
}

func TestUnsupportedRequestsAreRejected(t *testing.T) {
	do, url := serve(t, limit.Faults{})
	for _, query := range []string{"?labelSelector=a", "?limit=500", "?watch=true&sendInitialEvents=true", "?watch=true&fieldSelector=a%3Db"} {
		code, _ := do("GET", things+query, "")
		assert.Equal(t, 400, code, query)
	}
	for _, name := range []string{"PUT", "PATCH", "DELETE"} {
		code, _ := do(name, things+"/nosuch", "{}")
		assert.Equal(t, 404, code, name)
	}
	for _, c := range []struct {
		method, header, value string
		code                  int
	}{
		{"GET", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1", 406},
		{"PATCH", "Content-Type", "application/apply-patch+yaml", 415},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, url+things, nil)
		require.NoError(t, err)
		req.Header.Set(c.header, c.value)
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, c.code, res.StatusCode)
	}
}

// versions reads the versions of the next n events of a watch.
func versions(t *testing.T, url string, n int, write func()) []string {
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+things+"?watch=true&resourceVersion=1", nil)
	require.NoError(t, err)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	write()
	var out []string
	lines := bufio.NewScanner(res.Body)
	for len(out) < n && lines.Scan() {
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ ResourceVersion string }
			}
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event))
		out = append(out, event.Object.Metadata.ResourceVersion+event.Type[:1])
	}
	return out
}

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		faults limit.Faults
		want   string
	}{
		{limit.Faults{}, "1A 2M 3M 4M 5M 6D"},
		{limit.Faults{DropEvery: 3}, "1A 2M 4M 5M"},
		{limit.Faults{SwapEvery: 3}, "1A 2M 4M 3M 5M"},
	} {
		do, url := serve(t, c.faults)
		got := versions(t, url, len(strings.Fields(c.want)), func() {
			_, _ = do("POST", things, thing("a"))
			for range 4 {
				_, _ = do("PUT", things+"/a", thing("a"))
			}
			_, _ = do("DELETE", things+"/a", "")
		})
		assert.Equal(t, c.want, strings.Join(got, " "), "%+v", c.faults)
	}
}
