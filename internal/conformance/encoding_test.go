package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds"
)

// Cached encodings always show the stored state: after updates, a dry run, a deletion and a
// recreation.
func TestREAD_02_CachedEncodingsAreNeverStale(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		path := leasePath + "/a"
		check := func(when string) {
			t.Helper()
			plain := s.get(path).is(200)
			for range 4 {
				got := s.get(path, "Accept-Encoding", "gzip").is(200)
				require.True(t, zipped(t, got))
				require.Equal(t, string(plain.body), string(gunzip(t, got.body)), when)
				require.Equal(t, fmt.Sprint(len(got.body)), got.header.Get("Content-Length"))
				require.Equal(t, "Accept-Encoding", got.header.Get("Vary"))
				require.Equal(t, plain.doc, decoded[kinds.Lease](s.get(path, "Accept", asProtobuf).is(200)), when)
				got = s.get(path, "Accept", asProtobuf, "Accept-Encoding", "gzip").is(200)
				require.True(t, zipped(t, got))
				require.Equal(t, asProtobuf, got.header.Get("Content-Type"))
				require.Equal(t, plain.doc, decodedMessage[kinds.Lease](t, gunzip(t, got.body)), when)

				for _, accept := range []string{tableV1, partialV1, "application/yaml", "application/json;pretty=1"} {
					other := s.get(path, "Accept", accept)
					got := s.get(path, "Accept", accept, "Accept-Encoding", "gzip").is(200)
					require.Equal(t, string(other.body), string(gunzip(t, got.body)), "%s: %s", when, accept)
				}
			}
		}
		body := func(holder string) string {
			return `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"` + holder + `"}}`
		}
		s.create(leasePath, body("one"))
		check("after the creation")
		for range 3 {
			dry := s.do("PUT", path+"?dryRun=All", body("nobody"), "Accept-Encoding", "gzip").is(200)
			require.Contains(t, string(gunzip(t, dry.body)), "nobody")
			check("after a dry run")
		}
		s.do("PUT", path, body("two"), "Accept-Encoding", "gzip").is(200)
		check("after an update")
		s.do("DELETE", path, "").is(200)
		s.get(path, "Accept-Encoding", "gzip").is(404)
		s.create(leasePath, body("three"))
		check("after another creation")
	})
}

func TestREAD_02_HeadWorksWithCachedEncodings(t *testing.T) {
	s := startInMemory(t)
	s.create(leasePath, `{"metadata":{"name":"a"},"spec":{"holderIdentity":"me"}}`)
	for range 3 {
		s.get(leasePath+"/a", "Accept-Encoding", "gzip").is(200)
		head := s.do("HEAD", leasePath+"/a", "", "Accept-Encoding", "gzip").is(200)
		require.Empty(t, head.body)
		require.Empty(t, head.header.Get("Content-Encoding"))
	}
}
