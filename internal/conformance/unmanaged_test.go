package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

// withoutManaged removes the managed fields from every object of a document and counts them.
func withoutManaged(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["managedFields"]; ok {
			delete(v, "managedFields")
			n++
		}
		for _, member := range v {
			n += withoutManaged(member)
		}
	case []any:
		for _, item := range v {
			n += withoutManaged(item)
		}
	}
	return n
}

// A client can request objects without managed fields, in every form. Everything else stays.
func TestSSA_01_OptOutOfManagedFieldsInReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t)
		packed := 0
		for _, name := range []string{"a", "b"} {
			note := strings.Repeat("long ", 30_000) // large enough to be compressed
			s.create(leasePath, `{"metadata":{"name":"`+name+`","labels":{"x":"y"},"annotations":{"note":"`+note+`"}},"spec":{"leaseDurationSeconds":15}}`)
		}
		forms := map[string]string{
			"JSON": "application/json", "any": "*/*", "Table": tableAs,
			"metadata": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "list of metadata": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		}
		for name, accept := range forms {
			for _, path := range []string{leasePath + "/a", leasePath, leasePath + "?limit=1", leasePath + "?includeObject=Object", leasePath + "?pretty=1"} {
				if (name == "metadata") != strings.HasSuffix(path, "/a") && strings.Contains(name, "metadata") {
					continue
				}
				for _, encoding := range []string{"", "gzip"} {
					for range 2 { // cached encodings for other clients must not change
						with := s.get(path, "Accept", accept, "Accept-Encoding", encoding)
						omitted := s.get(path, "Accept", accept+";managedfields=omit", "Accept-Encoding", encoding)
						for _, a := range []*answer{with, omitted} {
							if a.header.Get("Content-Encoding") != "" {
								packed++
								require.NoError(t, json.Unmarshal(gunzip(t, a.body), &a.doc))
							}
						}
						require.Positive(t, withoutManaged(with.doc), "%s of %s", name, path)
						require.Zero(t, withoutManaged(omitted.doc), "%s of %s", name, path)
						delete(with.doc["metadata"].(map[string]any), "continue") // tokens always differ
						delete(omitted.doc["metadata"].(map[string]any), "continue")
						require.Equal(t, with.doc, omitted.doc, "%s of %s", name, path)
					}
				}
			}
		}
		require.Positive(t, packed)
		text := string(s.get(leasePath+"/a", "Accept", "application/yaml;managedfields=OMIT").body)
		require.Contains(t, text, "leaseDurationSeconds: 15")
		require.NotContains(t, text, "managedFields")
		for _, accept := range []string{asProtobuf, asProtobuf + ";managedfields=omit"} {
			object := decoded[kinds.Lease](s.get(leasePath+"/a", "Accept", accept))
			require.Equal(t, strings.Contains(accept, "omit"), withoutManaged(object) == 0)
			require.NotNil(t, object["spec"])
		}
		// Other values are ignored.
		require.Positive(t, withoutManaged(s.get(leasePath+"/a", "Accept", "application/json;managedfields=keep").doc))
		require.Positive(t, withoutManaged(s.get(leasePath+"/a", "Accept", "application/json;managedfields=omit;q=0.5,application/json").doc))
		s.get(leasePath+"/a", "Accept", "application/json;managedfields=omit;managedfields=omit").is(406)
	})
}

func TestSSA_01_OptOutOfManagedFieldsInWatches(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(leasePath, `{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"leaseDurationSeconds":15}}`)
		for i, form := range []string{"application/json", tableAs, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
			path := leasePath + "?watch=1&includeObject=Object&labelSelector=x%3Dy"
			with, omitted := s.watch(path, "Accept", form), s.watch(path, "Accept", form+";managedfields=omit")
			same := func(kind string) {
				t.Helper()
				a, b := with.next(), omitted.next()
				require.Equal(t, kind, a.kind)
				require.Equal(t, kind, b.kind)
				require.Positive(t, withoutManaged(a.object))
				require.Equal(t, a.object, b.object)
			}
			same("ADDED")
			s.patch(leasePath+"/a", fmt.Sprintf(`{"spec":{"holderIdentity":"h%d"}}`, i))
			same("MODIFIED")
			s.patch(leasePath+"/a", `{"metadata":{"labels":{"x":"z"}}}`)
			same("DELETED")
			s.patch(leasePath+"/a", `{"metadata":{"labels":{"x":"y"}}}`)
			same("ADDED")
			with.close()
			omitted.close()
		}
		_, document := s.frames(leasePath+"?watch=1", asProtobuf+";managedfields=omit")()
		require.Zero(t, withoutManaged(decodedMessage[kinds.Lease](t, document)))
		_, document = s.frames(leasePath+"?watch=1", asProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1;managedfields=omit")()
		object := decodedMessage[meta.PartialObjectMetadata](t, document)
		require.Zero(t, withoutManaged(object))
		require.Equal(t, "a", at(object, "metadata", "name"))
	})
}

// The response to a write omits them, but they stay stored, even when the client sends the response
// back.
func TestSSA_01_OptOutOfManagedFieldsInWrites(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		omit := []string{"Accept", "application/json;managedfields=omit"}
		answers := func(a *answer) *answer {
			t.Helper()
			require.Less(t, a.code, 300, "%s", a)
			require.Zero(t, withoutManaged(a.doc), "%s", a)
			require.Equal(t, "a", a.text("metadata", "name"))
			return a
		}
		object := `{"metadata":{"name":"a"},"spec":{"leaseDurationSeconds":15}}`
		answers(s.do("POST", leasePath+"?dryRun=All", object, omit...))
		a := answers(s.do("POST", leasePath, object, omit...))
		stored := s.get(leasePath+"/a").at("metadata", "managedFields")
		require.NotEmpty(t, stored)
		whole, err := json.Marshal(a.doc)
		require.NoError(t, err)
		answers(s.do("PUT", leasePath+"/a?dryRun=All", string(whole), omit...))
		answers(s.do("PUT", leasePath+"/a", string(whole), omit...))
		require.Equal(t, stored, s.get(leasePath+"/a").at("metadata", "managedFields"))
		merge := append([]string{"Content-Type", "application/merge-patch+json"}, omit...)
		for _, query := range []string{"?dryRun=All", "", ""} {
			answers(s.do("PATCH", leasePath+"/a"+query, `{"spec":{"holderIdentity":"me"}}`, merge...))
		}
		applied := append([]string{"Content-Type", applyType}, omit...)
		answers(s.do("PATCH", leasePath+"/a?fieldManager=m&force=true", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",`+object[1:], applied...))
		require.Len(t, s.get(leasePath+"/a").at("metadata", "managedFields"), 2)
	})
}
