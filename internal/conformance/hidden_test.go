package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// Who may write and not read is told what is wrong with their request, not what is stored: neither
// the values of the object nor those of its other parts. A patch that copies what is stored to a place
// whose refusal quotes it is left out: a patch that succeeds shows the whole object, as in Kubernetes.
func TestS12_RefusalsKeepWhatIsStored(t *testing.T) {
	const hidden = "harbour-of-nobody"
	writes := allowing("writer create fleets", "writer update fleets", "writer delete fleets", "writer update fleets/scale",
		"writer patch fleets/scale", "writer update fleets/status", "writer patch fleets/status", "writer patch fleets")
	onFleets(t, func(t *testing.T, s *server) {
		s.do("POST", fleetPath+"?fieldManager="+hidden, `{"metadata":{"name":"a","labels":{"l":"`+hidden+`"},"annotations":{"a":"`+hidden+`"},
			"finalizers":["example.com/`+hidden+`"]},"spec":{"size":3,"port":"`+hidden+`"}}`, "X-Groups", "system:masters").is(201)
		a := fleetPath + "/a"
		patch := func(kind, body string) []string { return []string{"PATCH", body, "application/" + kind + "+json"} }
		for path, list := range map[string][][]string{
			fleetPath: {
				{"POST", `{"metadata":{"name":"a"}}`},
				{"POST", `{"metadata":{"name":"a"},"spec":{"size":1000}}`},
				{"POST", `{"metadata":{"name":"a","uid":"x"},"spec":{"port":1}}`},
			},
			a: {
				{"PUT", `{"metadata":{"name":"a","resourceVersion":"1"}}`},
				{"PUT", `{"metadata":{"name":"a","uid":"x"}}`},
				{"PUT", `{"metadata":{"name":"a"},"spec":{"size":1000}}`},
				{"PUT", `{"metadata":{"name":"a"},"spec":{"port":{}}}`},
				{"DELETE", `{"preconditions":{"resourceVersion":"1"}}`},
				patch("json-patch", `[{"op":"test","path":"/spec/port","value":"guess"}]`),
				patch("json-patch", `[{"op":"test","path":"/metadata/labels","value":{}}]`),
				patch("json-patch", `[{"op":"copy","from":"/spec/port","path":"/spec/size"}]`),
				patch("json-patch", `[{"op":"remove","path":"/spec/none"}]`),
				patch("merge-patch", `{"metadata":{"resourceVersion":"1"}}`),
				patch("merge-patch", `{"spec":{"size":1000}}`),
			},
			a + "/status": {
				{"PUT", `{"metadata":{"name":"a","resourceVersion":"1"}}`},
				patch("json-patch", `[{"op":"copy","from":"/spec/port","path":"/status/size"}]`),
				patch("merge-patch", `{"status":{"size":"x"}}`),
			},
			a + "/scale": {
				{"PUT", `{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"replicas":1}}`},
				{"PUT", `{"metadata":{"name":"a"},"spec":{"replicas":1000}}`},
				patch("json-patch", `[{"op":"test","path":"/spec/port","value":"guess"}]`),
				patch("json-patch", `[{"op":"copy","from":"/spec/port","path":"/spec/replicas"}]`),
				patch("merge-patch", `{"spec":{"replicas":1000}}`),
			},
		} {
			for _, w := range list {
				headers := []string{"X-User", "writer"}
				if len(w) > 2 {
					headers = append(headers, "Content-Type", w[2])
				}
				r := s.do(w[0], path, w[1], headers...)
				require.GreaterOrEqual(t, r.code, 400, "%s %s %s", w[0], path, w[1])
				require.Less(t, r.code, 500, "%s %s %s", w[0], path, w[1])
				require.NotEqual(t, 403, r.code, "%s %s %s: %s", w[0], path, w[1], r.body)
				require.NotContains(t, string(r.body), hidden, "%s %s %s: %s", w[0], path, w[1], r.body)
			}
		}
	}, kindwright.Authorize(writes))
}
