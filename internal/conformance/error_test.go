package conformance

import (
	"fmt"

	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a client sends comes back from a refusal in part at most, wherever in the object it stood.
func TestERR_22_RefusalsAreShort(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		long := strings.Repeat("y", 1<<20)
		for _, body := range []string{
			`{"metadata":{"name":%q}}`, `{"metadata":{"name":"b","namespace":%q}}`, `{"metadata":{"name":"a","uid":%q}}`, `{"metadata":{"name":"a","resourceVersion":%q}}`, `{"kind":%q}`, `{"apiVersion":%q}`,
			`{"metadata":{"name":"B","labels":{"a":%q}}}`, `{"metadata":{"name":"B","labels":{%q:""}}}`, `{"metadata":{"name":"B","annotations":{%q:""}}}`, `{"metadata":{"name":"B","finalizers":[%q]}}`,
			`{"metadata":{"name":"B","ownerReferences":[{"apiVersion":%q,"uid":"x"}]}}`, `{"metadata":{"generateName":%q,"labels":{"-":""}}}`,
			`{"metadata":{"name":"B"},"spec":{"color":%q}}`, `{"metadata":{"name":"B"},"spec":{"owner":%q}}`, `{"metadata":{"name":"B"},"spec":{"size":%q}}`, `{"metadata":{"name":"B"},"spec":{"notes":{%q:1}}}`,
			`{"metadata":{"name":"B"},"spec":{"parts":[{"name":%[1]q},{"name":%[1]q}]}}`, `{"metadata":{"name":"B"},"spec":{"tags":[%[1]q,%[1]q]}}`, `{"metadata":{"name":"B"},%q:1}`, `{"spec":{"weight":"%[1]s"}}`,
			`{"metadata":{"name":"B"},"spec":{"color":{%q:{}}}}`, `{"metadata":{"name":"B","creationTimestamp":%q}}`, `{"metadata":{"name":"B","managedFields":[{"manager":%q}]}}`,
		} {
			body = fmt.Sprintf(body, long)
			for _, r := range []request{
				{"POST", cratePath + "?fieldValidation=Strict", jsonType, body}, {"PUT", cratePath + "/a?fieldValidation=Strict", jsonType, body}, {"PATCH", cratePath + "/a?fieldValidation=Strict", mergeType, body},
				{"PATCH", cratePath + "/a?fieldValidation=Strict", strategicType, body}, {"PATCH", cratePath + "/a?fieldManager=m&fieldValidation=Strict", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate",` + body[1:]},
				{"PATCH", cratePath + "/b?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate",` + body[1:]},
				{"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"add","path":"/` + long + `","value":1}]`}, {"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"` + long + `","path":"/a","value":1}]`},
				{"DELETE", cratePath + "/a", jsonType, `{"preconditions":{"uid":"` + long + `"}}`}, {"DELETE", cratePath + "/a", jsonType, `{"preconditions":{"resourceVersion":"` + long + `"}}`},
				{"DELETE", cratePath + "/a", jsonType, `{"propagationPolicy":"` + long + `"}`}, {"DELETE", cratePath + "/a", jsonType, `{"kind":"` + long + `"}`}, {"DELETE", cratePath + "/a", jsonType, `{"dryRun":["` + long + `"]}`},
			} {
				got := s.ask1(r)
				if got.code >= 300 {
					require.Less(t, len(got.body), 8<<10, "%s %.120s: %d %.300s", r.method, r.body, got.code, got.body)
				}
				require.Less(t, len(fmt.Sprint(got.header)), 8<<10)
			}
		}
	})
}

// Nor do conflicts repeat a long key of an item for each field of it.
func TestSSA_18_ConflictsAreShort(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		key := strings.Repeat("k", 200<<10)
		s.apply("ann", fmt.Sprintf(`"parts":[{"name":%q,"count":1}]`, key)).is(201)
		got := s.apply("bob", fmt.Sprintf(`"parts":[{"name":%q,"count":2}]`, key)).refused(409, "Conflict", "Apply failed with 1 conflict")
		require.Less(t, len(got.body), 8<<10)
	})
}
