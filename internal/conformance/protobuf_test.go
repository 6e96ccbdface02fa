package conformance

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

const (
	asProtobuf = "application/vnd.kubernetes.protobuf"
	typed      = asProtobuf + ",application/json" // sent by typed clients of client-go
)

// described describes how a Go type is encoded as protobuf.
func described[T any](t *testing.T) *protobuf.Descriptor {
	t.Helper()
	d, ok, err := protobuf.Describe(reflect.TypeFor[T]())
	require.NoError(t, err)
	require.True(t, ok)
	return d
}

// encoded returns the document of an object, from its JSON.
func encoded[T any](t *testing.T, apiVersion, kind, object string) string {
	t.Helper()
	out, err := described[T](t).AppendObject(nil, apiVersion, kind, []byte(object))
	require.NoError(t, err)
	return string(out)
}

// decoded reads an answer in protobuf: kind and apiVersion are in the envelope.
func decoded[T any](a *answer) map[string]any {
	a.t.Helper()
	require.Equal(a.t, asProtobuf, a.header.Get("Content-Type"), "%s", a)
	return decodedMessage[T](a.t, a.body)
}

func decodedMessage[T any](t *testing.T, document []byte) map[string]any {
	t.Helper()
	text, err := described[T](t).AppendDocument(nil, document, 1<<20)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

func TestPATH_19_Protobuf(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		// Kinds with a protobuf form can be read and written in it.
		made := s.do("POST", leasePath, encoded[kinds.Lease](t, "coordination.k8s.io/v1", "Lease", `{"metadata":{"name":"a"},"spec":{"holderIdentity":"me"}}`),
			"Content-Type", asProtobuf, "Accept", typed).is(201)
		plain := s.get(leasePath + "/a").is(200)
		require.Equal(t, plain.doc, decoded[kinds.Lease](made))
		require.Equal(t, plain.doc, decoded[kinds.Lease](s.get(leasePath+"/a", "Accept", asProtobuf).is(200)))
		e, err := protobuf.Open(s.get(leasePath, "Accept", typed).is(200).body)
		require.NoError(t, err)
		require.Equal(t, "LeaseList", e.Kind)
		require.Equal(t, "coordination.k8s.io/v1", e.APIVersion)
		require.Equal(t, "application/json", s.get(leasePath+"/a", "Accept", "application/json,"+asProtobuf).header.Get("Content-Type"))
		options := encoded[meta.DeleteOptions](t, "v1", "DeleteOptions", `{"preconditions":{"uid":"other"}}`)
		s.do("DELETE", leasePath+"/a", options, "Content-Type", asProtobuf).refused(409, "Conflict", "")
		options = encoded[meta.DeleteOptions](t, "v1", "DeleteOptions", `{"gracePeriodSeconds":0}`)
		require.Equal(t, "Success", decoded[meta.Status](s.do("DELETE", leasePath+"/a", options, "Content-Type", asProtobuf, "Accept", typed).is(200))["status"])

		// Other kinds reject it or fall back, as the client allows.
		w := s.widget("w", "")
		require.Equal(t, w.doc, s.get(widgetPath+"/w", "Accept", typed).is(200).doc)
		for _, path := range []string{widgetPath, widgetPath + "/w", widgetPath + "?watch=1"} {
			refusal := decoded[meta.Status](s.get(path, "Accept", asProtobuf).is(406))
			require.Equal(t, "NotAcceptable", refusal["reason"])
		}
		s.do("POST", widgetPath, encoded[meta.PartialObjectMetadata](t, "shop.example.com/v1", "Widget", `{"metadata":{"name":"x"}}`), "Content-Type", asProtobuf).
			refused(415, "UnsupportedMediaType", "application/json, application/yaml")
		partial := s.get(widgetPath+"/w", "Accept", asProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").is(200)
		require.Equal(t, w.at("metadata"), decoded[meta.PartialObjectMetadata](partial)["metadata"], "metadata has one form for all kinds")
		s.get(leasePath, "Accept", asProtobuf+";as=Table;g=meta.k8s.io;v=v1,application/json").is(200)
	})
}

func TestPATH_19_TheNameFollowsTheGroupDomain(t *testing.T) {
	const own = "application/vnd.example.dev.protobuf"
	onEach(t, func(t *testing.T, s *server) {
		for _, name := range []string{own, asProtobuf} {
			body := encoded[kinds.Namespace](t, "v1", "Namespace", `{"metadata":{"generateName":"team-"}}`)
			a := s.do("POST", namespacePath, body, "Content-Type", name, "Accept", name).is(201)
			require.Equal(t, name, a.header.Get("Content-Type"))
			require.Equal(t, name, s.get(namespacePath+"/none", "Accept", name).is(404).header.Get("Content-Type"))
			require.Equal(t, name+";stream=watch", s.watch(namespacePath+"?watch=1", "Accept", name).res.Header.Get("Content-Type"))
		}
	}, kindwright.Kubernetes{GroupDomain: "example.dev"})
	onEach(t, func(t *testing.T, s *server) {
		s.get(namespacePath, "Accept", own).refused(406, "NotAcceptable", asProtobuf)
		s.do("POST", namespacePath, "x", "Content-Type", own).refused(415, "UnsupportedMediaType", "")
	})
}

// Errors use the requested media type, wherever in the request they occur (ERR-19).
func TestPATH_19_ErrorsInProtobuf(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(leasePath, `{"metadata":{"name":"a"}}`)
		for _, r := range [][]string{
			{"GET", leasePath + "/none", ""},
			{"GET", widgetPath + "/none", ""},
			{"GET", "/apis/none.example.com/v1/nones", ""},
			{"GET", "/apis/none.example.com/v1", ""},
			{"GET", leasePath + "?limit=x", ""},
			{"GET", leasePath + "?fieldSelector=spec.x%3Dy", ""},
			{"POST", leasePath, `{"metadata":{"name":"a"}}`},
			{"POST", leasePath, `{"metadata":{"name":"b"},"spec":{"leaseDurationSeconds":-1,"leaseTransitions":-1}}`},
			{"POST", leasePath, `{"metadata":`},
			{"PUT", leasePath, `{}`},
			{"GET", leasePath, "", "X-User", "bob", "X-Groups", ""},
			{"GET", leasePath, "", "X-User", ""},
		} {
			plain := s.do(r[0], r[1], r[2], r[3:]...)
			require.GreaterOrEqual(t, plain.code, 400)
			a := s.do(r[0], r[1], r[2], append(r[3:len(r):len(r)], "Accept", typed)...).is(plain.code)
			require.Equal(t, plain.doc, decoded[meta.Status](a))
			require.Equal(t, plain.header.Get("Retry-After"), a.header.Get("Retry-After"))
		}
	}, kindwright.Access{NoAnonymous: true}, kindwright.Authorize(authz.AlwaysDeny()))
}

// frames reads a stream of length-prefixed frames. next returns the type of an event and its
// object's document.
func (s *server) frames(path, accept string) (next func() (kind string, document []byte)) {
	s.t.Helper()
	res := s.send("GET", path, "", "Accept", accept)
	s.t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(s.t, 200, res.StatusCode)
	require.Equal(s.t, asProtobuf+";stream=watch", res.Header.Get("Content-Type"))
	return func() (kind string, document []byte) {
		s.t.Helper()
		var length [4]byte
		if _, err := io.ReadFull(res.Body, length[:]); err != nil {
			require.ErrorIs(s.t, err, io.EOF, "a stream ends between two frames")
			return "", nil
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		_, err := io.ReadFull(res.Body, frame)
		require.NoError(s.t, err)
		for len(frame) > 0 {
			f, rest, err := protowire.Next(frame)
			require.NoError(s.t, err)
			switch frame = rest; f.Number {
			case 1:
				kind = string(f.Bytes)
			case 2: // a RawExtension, whose first field is the document
				raw, _, err := protowire.Next(f.Bytes)
				require.NoError(s.t, err)
				document = raw.Bytes
			}
		}
		return kind, document
	}
}

func TestWATCH_35_ProtobufFrames(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(leasePath, `{"metadata":{"name":"a"},"spec":{"leaseDurationSeconds":15}}`)
		next := s.frames(leasePath+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=30", typed)
		plain := s.watch(leasePath + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=30")
		same := func(want string) {
			t.Helper()
			kind, document := next()
			line := plain.next()
			require.Equal(t, want, kind)
			require.Equal(t, want, line.kind)
			object := decodedMessage[kinds.Lease](t, document)
			if want == "BOOKMARK" {
				delete(object, "spec") // protobuf always encodes it
			}
			require.Equal(t, line.object, object)
		}
		same("ADDED")
		same("BOOKMARK")
		s.patch(leasePath+"/a", `{"spec":{"holderIdentity":"me"}}`)
		same("MODIFIED")
		s.delete(leasePath + "/a")
		same("DELETED")
		time.Sleep(31 * time.Second)
		same("BOOKMARK")
		kind, _ := next()
		require.Empty(t, kind, "end of stream")
		plain.ended(time.Second)
		// Partial metadata works for any kind.
		s.widget("w", "x=y")
		kind, document := s.frames(widgetPath+"?watch=1", asProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1")()
		require.Equal(t, "ADDED", kind)
		require.Equal(t, "w", at(decodedMessage[meta.PartialObjectMetadata](t, document), "metadata", "name"))
	})
}

// Frames are made once for all who ask for the same. Nobody gets what was made for another form, another
// selector or another type of event.
func TestWATCH_35_ManyWatchersInEveryForm(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		type pair struct {
			next     func() (kind string, document []byte)
			plain    *stream
			metadata bool
		}
		var pairs []pair
		for _, selector := range []string{"", "&labelSelector=x%3Dy"} {
			path := leasePath + "?watch=1&resourceVersion=" + s.now() + selector
			for range 2 {
				as := ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
				pairs = append(pairs, pair{s.frames(path, typed), s.watch(path), false},
					pair{s.frames(path, asProtobuf+as), s.watch(path, "Accept", "application/json"+as), true})
			}
		}
		s.create(leasePath, `{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"holderIdentity":"me"}}`)
		s.patch(leasePath+"/a", `{"spec":{"holderIdentity":"you"}}`)
		s.patch(leasePath+"/a", `{"metadata":{"labels":{"x":"z"}}}`) // leaves the selector
		s.patch(leasePath+"/a", `{"metadata":{"labels":{"x":"y"}}}`) // and comes back
		s.delete(leasePath + "/a")
		for i, p := range pairs {
			for event := range 5 {
				kind, document := p.next()
				want := p.plain.next()
				require.Equal(t, want.kind, kind, "pair %d, event %d", i, event)
				if p.metadata {
					require.Equal(t, want.object, decodedMessage[meta.PartialObjectMetadata](t, document), "pair %d, event %d", i, event)
				} else {
					require.Equal(t, want.object, decodedMessage[kinds.Lease](t, document), "pair %d, event %d", i, event)
				}
			}
		}
	})
}

func TestWATCH_35_ERRORInProtobuf(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, accept := range []string{asProtobuf, asProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
			next := s.frames(leasePath+"?watch=1&resourceVersion=1", accept)
			kind, document := next()
			require.Equal(t, "ERROR", kind)
			failure := decodedMessage[meta.Status](t, document)
			require.Equal(t, "Expired", failure["reason"])
			require.InDelta(t, 410, failure["code"], 0)
			require.Equal(t, "Status", failure["kind"])
			require.Equal(t, "v1", failure["apiVersion"])
			kind, _ = next()
			require.Empty(t, kind)
		}
	})
}

// Malformed protobuf is rejected with a Status, at a cost bounded by the body's length.
func TestPATH_19_BadProtobuf(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		good := encoded[kinds.Namespace](t, "v1", "Namespace", `{"metadata":{"name":"team","labels":{"a":"b"}},"spec":{"finalizers":["x"]}}`)
		post := func(body string) *answer {
			s.t.Helper()
			return s.do("POST", namespacePath, body, "Content-Type", asProtobuf)
		}
		post("").refused(400, "BadRequest", "")
		post(`{"metadata":{"name":"team"}}`).refused(400, "BadRequest", "the body is JSON or YAML")
		post("k8s").refused(400, "BadRequest", "")
		const tail = 4 // two empty fields that are not needed
		for i := 1; i < len(good)-tail; i++ {
			a := post(good[:i])
			require.Contains(t, []int{400, 422}, a.code, "truncated after %d of %d bytes: %s", i, len(good), a)
			require.Equal(t, "Status", a.at("kind"), "%s", a)
		}
		s.do("POST", namespacePath, good, "Content-Type", "application/json").refused(400, "BadRequest", "")
		for kind, body := range map[string]string{
			"Lease": encoded[kinds.Lease](t, "coordination.k8s.io/v1", "Lease", `{"metadata":{"name":"team"}}`),
			"Nspac": encoded[kinds.Namespace](t, "v1", "Nspac", `{"metadata":{"name":"team"}}`),
			"v2":    encoded[kinds.Namespace](t, "v2", "Namespace", `{"metadata":{"name":"team"}}`),
		} {
			post(body).refused(400, "BadRequest", kind)
		}
		s.do("DELETE", namespacePath+"/kube-node-lease", good, "Content-Type", asProtobuf).refused(400, "BadRequest", `"Namespace" of "v1"`)

		// Lengths beyond 1 GiB, in the envelope and in the message.
		for _, length := range []uint64{1 << 30, 1<<31 - 1, 1 << 31, 1 << 32, 1<<63 - 1, 1<<64 - 1} {
			field := func(number int32) []byte {
				return append(protowire.AppendVarint(protowire.AppendKey(nil, number, protowire.Bytes), length), "short"...)
			}
			post("k8s\x00"+string(field(2))).refused(400, "BadRequest", "")
			message := append(protowire.AppendVarint(protowire.AppendKey(nil, 2, protowire.Bytes), uint64(len(field(1)))), field(1)...)
			post("k8s\x00"+string(message)).refused(400, "BadRequest", "")
		}
		// Deeply nested messages, in a known field and in an unknown one.
		for _, number := range []int32{1, 99} {
			nested := []byte{}
			for range 3000 {
				nested = append(protowire.AppendVarint(protowire.AppendKey(nil, number, protowire.Bytes), uint64(len(nested))), nested...)
			}
			message := append(protowire.AppendVarint(protowire.AppendKey(nil, 2, protowire.Bytes), uint64(len(nested))), nested...)
			a := post("k8s\x00" + string(message))
			require.Contains(t, []int{400, 422}, a.code)
			require.Less(t, len(a.body), 1<<12)
		}
		post("k8s\x00"+strings.Repeat("x", 3<<20)).refused(413, "RequestEntityTooLarge", "")

		random := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			damaged := bytes.Clone([]byte(good))
			for range 1 + random.IntN(3) {
				damaged[random.IntN(len(damaged))] = byte(random.Uint32())
			}
			a := post(string(damaged) + " ")
			require.Less(t, a.code, 500, "%x: %s", damaged, a)
			if a.code != 201 {
				require.Equal(t, "Status", a.at("kind"), "%x: %s", damaged, a)
			}
		}
		s.get(namespacePath + "/default").is(200)
		time.Sleep(time.Second) // net/http lingers on a connection with an unread body
	})
}
