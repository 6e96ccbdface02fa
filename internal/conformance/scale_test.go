package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Fleet can be scaled. v1, which is stored, calls its replicas size. v2 calls them count and has
// its own scale. v3 has none.
type Fleet struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   FleetSpec   `json:"spec,omitzero"`
	Status FleetStatus `json:"status,omitzero"`
}

// FleetSpec is the desired state of a fleet.
type FleetSpec struct {
	Size *int32 `json:"size,omitempty" maximum:"100"`
	Port string `json:"port,omitempty"`
}

// FleetStatus is the observed state of a fleet.
type FleetStatus struct {
	Size  int32  `json:"size,omitempty"`
	Ships string `json:"ships,omitempty"`
}

// FleetV2 is the second version of Fleet, and also the third.
type FleetV2 struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   FleetSpecV2   `json:"spec,omitzero"`
	Status FleetStatusV2 `json:"status,omitzero"`
}

// FleetSpecV2 is the desired state of a fleet.
type FleetSpecV2 struct {
	Count *int32 `json:"count,omitempty"`
	Port  string `json:"port,omitempty"`
}

// FleetStatusV2 is the observed state of a fleet.
type FleetStatusV2 struct {
	Count int32 `json:"count,omitempty"`
}

const (
	fleetPath  = "/apis/shop.example.com/v1/namespaces/default/fleets"
	fleet2Path = "/apis/shop.example.com/v2/namespaces/default/fleets"
	fleet3Path = "/apis/shop.example.com/v3/namespaces/default/fleets"
)

func fleets() registry.Kind[Fleet] {
	to := func(f *FleetV2) (*Fleet, error) {
		return &Fleet{ObjectMeta: f.ObjectMeta, Spec: FleetSpec{Size: f.Spec.Count, Port: f.Spec.Port}, Status: FleetStatus{Size: f.Status.Count}}, nil
	}
	from := func(f *Fleet) (*FleetV2, error) {
		return &FleetV2{ObjectMeta: f.ObjectMeta, Spec: FleetSpecV2{Count: f.Spec.Size, Port: f.Spec.Port}, Status: FleetStatusV2{Count: f.Status.Size}}, nil
	}
	v2 := registry.Kind[FleetV2]{Group: group, Version: "v2", Plural: "fleets", Names: registry.Names{Kind: "Fleet"}, Subresources: []registry.Endpoint{
		registry.ScaleSubresource{SpecReplicasPath: ".spec.count", StatusReplicasPath: ".status.count"},
	}}
	v3 := v2
	v3.Version, v3.Subresources = "v3", nil
	return registry.Kind[Fleet]{
		Group: group, Version: "v1", Plural: "fleets",
		Subresources: []registry.Endpoint{registry.ScaleSubresource{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size", LabelSelectorPath: ".status.ships"}},
		Also:         []registry.Form{registry.As(v2, to, from, nil), registry.As(v3, to, from, nil)},
	}
}

// allowing allows what it lists, as "user verb resource".
func allowing(list ...string) authz.Authorizer {
	return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		resource := a.Resource
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		if slices.Contains(list, a.User.Name+" "+a.Verb+" "+resource) {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
}

func onFleets(t *testing.T, test func(t *testing.T, s *server), opts ...kindwright.Option) {
	t.Helper()
	onEach(t, test, append(opts, kindwright.Serve(fleets()))...)
}

func (s *server) fleet(name, spec string) *answer {
	s.t.Helper()
	return s.create(fleetPath+"?fieldManager=maker", `{"metadata":{"name":"`+name+`"},"spec":{`+spec+`}}`)
}

func scaleJSON(replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":%d}}`, replicas)
}

func TestUPDATE_12_AScaleShowsReplicas(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		made := s.fleet("a", `"size":3`)
		s.do("PUT", fleetPath+"/a/status", `{"metadata":{"name":"a"},"status":{"size":2,"ships":"fleet=a"}}`).is(200)
		object := s.get(fleetPath + "/a")
		got := s.get(fleetPath + "/a/scale").is(200)
		require.Equal(t, "autoscaling/v1", got.at("apiVersion"))
		require.Equal(t, "Scale", got.at("kind"))
		require.Equal(t, map[string]any{"replicas": 3.0}, got.at("spec"))
		require.Equal(t, map[string]any{"replicas": 2.0, "selector": "fleet=a"}, got.at("status"))
		metadata := got.at("metadata").(map[string]any) // without managedFields: they are for merging
		require.Equal(t, map[string]any{
			"name": "a", "namespace": "default", "uid": made.at("metadata", "uid"), "resourceVersion": object.version(),
			"creationTimestamp": made.at("metadata", "creationTimestamp"),
		}, metadata)
		s.get(fleetPath+"/none/scale").refused(404, "NotFound", `fleets.shop.example.com "none" not found`)
		s.get(widgetPath + "/a/scale").is(404)
		s.fleet("empty", ``)
		require.Equal(t, map[string]any{"replicas": 0.0}, s.get(fleetPath+"/empty/scale").is(200).at("spec"))
		// Other media types.
		require.Contains(t, string(s.get(fleetPath+"/a/scale", "Accept", "application/yaml").is(200).body), "kind: Scale\n")
		table := s.get(fleetPath+"/a/scale", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").is(200)
		require.Equal(t, "Table", table.at("kind"))
		row := table.at("rows").([]any)[0]
		require.Equal(t, []any{"a", 3.0, 2.0}, at(row, "cells").([]any)[:3])
		partial := s.get(fleetPath+"/a/scale", "Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").is(200)
		require.Equal(t, "PartialObjectMetadata", partial.at("kind"))
		proto := s.get(fleetPath+"/a/scale", "Accept", asProtobuf).is(200)
		require.Equal(t, asProtobuf, proto.header.Get("Content-Type"))
		require.Contains(t, string(proto.body), "autoscaling/v1")
		back := s.do("PUT", fleetPath+"/a/scale", string(proto.body), "Content-Type", asProtobuf, "Accept", "application/json").is(200)
		require.Equal(t, object.version(), back.version(), "the object must not change")
	})
}

func TestUPDATE_12_AScaleChangesOnlyReplicas(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		s.fleet("a", `"size":3,"port":"kiel"`)
		replicas := func() any { return s.get(fleetPath+"/a").at("spec", "size") }
		got := s.do("PUT", fleetPath+"/a/scale", scaleJSON(5)).is(200)
		require.Equal(t, "Scale", got.at("kind"))
		require.InDelta(t, 5, got.at("spec", "replicas"), 0)
		object := s.get(fleetPath + "/a")
		require.Equal(t, object.version(), got.version())
		require.Equal(t, map[string]any{"size": 5.0, "port": "kiel"}, object.at("spec"))
		require.InDelta(t, 2, object.at("metadata", "generation"), 0)
		w := s.watch(fleetPath + "?watch=1&resourceVersion=" + object.version())
		for patchType, body := range map[string]string{
			jsonPatchType: `[{"op":"replace","path":"/spec/replicas","value":6}]`, mergeType: `{"spec":{"replicas":7}}`,
			"application/strategic-merge-patch+json": `{"spec":{"replicas":8}}`,
		} {
			got := s.change(fleetPath+"/a/scale", patchType, body).is(200)
			require.Equal(t, got.at("spec", "replicas"), replicas())
			require.Equal(t, "Fleet", w.expect("MODIFIED", "a").at("kind"))
		}
		before := s.get(fleetPath + "/a")
		got = s.do("PUT", fleetPath+"/a/scale", `{"metadata":{"name":"a","labels":{"x":"y"},"finalizers":["a.example.com/b"]},"spec":{"replicas":1},"status":{"replicas":77,"selector":"x"}}`).is(200)
		require.Nil(t, got.at("metadata", "labels"))
		after := s.get(fleetPath + "/a")
		require.Nil(t, after.at("metadata", "labels"))
		require.Nil(t, after.at("metadata", "finalizers"))
		require.Equal(t, before.at("status"), after.at("status"))
		// Without a version it replaces any state; with one, only that version.
		s.do("PUT", fleetPath+"/a/scale", `{"metadata":{"name":"a","resourceVersion":"`+before.version()+`"},"spec":{"replicas":9}}`).
			refused(409, "Conflict", `Operation cannot be fulfilled on fleets.shop.example.com "a"`)
		s.change(fleetPath+"/a/scale", mergeType, `{"metadata":{"resourceVersion":"`+before.version()+`"},"spec":{"replicas":9}}`).refused(409, "Conflict", "")
		s.do("PUT", fleetPath+"/a/scale", `{"metadata":{"name":"a","resourceVersion":"`+after.version()+`"},"spec":{"replicas":9}}`).is(200)
		s.do("PUT", fleetPath+"/a/scale", `{"metadata":{"name":"a"}}`).is(200)
		require.InDelta(t, 0, replicas(), 0, "an empty Scale means zero replicas")
		// A no-op changes nothing.
		same := s.get(fleetPath + "/a")
		require.Equal(t, same.version(), s.do("PUT", fleetPath+"/a/scale", scaleJSON(0)).is(200).version())
		s.fleet("b", "")
		b := s.get(fleetPath + "/b/scale")
		require.Equal(t, b.version(), s.do("PUT", fleetPath+"/b/scale", string(b.body)).is(200).version(), "what was not said need not be said now")
		// A dry run changes nothing.
		require.InDelta(t, 4, s.do("PUT", fleetPath+"/a/scale?dryRun=All", scaleJSON(4)).is(200).at("spec", "replicas"), 0)
		require.Equal(t, same.doc, s.get(fleetPath+"/a").doc)
	})
}

func TestUPDATE_12_BadScales(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		s.fleet("a", `"size":3`)
		before := s.get(fleetPath + "/a")
		refuse := func(body string, code int, reason, text string) *answer {
			return s.do("PUT", fleetPath+"/a/scale", body).refused(code, reason, text)
		}
		refuse(scaleJSON(-1), 422, "Invalid", `Scale.autoscaling "a" is invalid`).because("FieldValueInvalid", "spec.replicas", "must be greater than or equal to 0")
		refuse(scaleJSON(101), 422, "Invalid", `Fleet.shop.example.com "a" is invalid`).because("FieldValueInvalid", "spec.size", "100")
		refuse(`{"metadata":{"name":"a"},"spec":{"replicas":"3"}}`, 422, "Invalid", "spec.replicas")
		refuse(`{"metadata":{"name":"a"},"spec":{"replicas":3000000000}}`, 422, "Invalid", "spec.replicas")
		refuse(`{"metadata":{"name":"b"},"spec":{"replicas":1}}`, 400, "BadRequest", "does not match the name on the URL")
		refuse(`{"metadata":{"name":"a","namespace":"b"},"spec":{"replicas":1}}`, 400, "BadRequest", "namespace")
		refuse(`{"metadata":{"name":"a","uid":"u"},"spec":{"replicas":1}}`, 409, "Conflict", "UID")
		refuse(string(before.body), 400, "BadRequest", "fleets.shop.example.com/scale takes kind Scale of autoscaling/v1")
		refuse(`{"apiVersion":"autoscaling/v2","kind":"Scale","metadata":{"name":"a"}}`, 400, "BadRequest", "autoscaling/v1")
		refuse("", 400, "BadRequest", "a Scale is expected")
		refuse("[]", 400, "BadRequest", "")
		s.do("PUT", fleetPath+"/a/scale?fieldValidation=Strict", `{"metadata":{"name":"a"},"spec":{"replicas":1,"size":1}}`).refused(400, "BadRequest", `unknown field "spec.size"`)
		s.do("PUT", fleetPath+"/a/scale?fieldValidation=Strict", `{"metadata":{"name":"a"},"spec":{"replicas":1,"replicas":2}}`).refused(400, "BadRequest", `duplicate field "spec.replicas"`)
		s.do("PUT", fleetPath+"/none/scale", `{"metadata":{"name":"none"},"spec":{"replicas":1}}`).refused(404, "NotFound", "")
		s.change(fleetPath+"/none/scale?fieldManager=m", applyType, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"none"},"spec":{"replicas":1}}`).refused(404, "NotFound", "")
		s.do("PUT", fleetPath+"/a/scale", "x", "Content-Type", "text/plain").refused(415, "UnsupportedMediaType", "")
		s.change(fleetPath+"/a/scale", "text/plain", "x").refused(415, "UnsupportedMediaType", "application/merge-patch+json")
		s.get(fleetPath+"/a/scale", "Accept", "image/png").refused(406, "NotAcceptable", "")
		require.Equal(t, "GET, HEAD, PUT, PATCH", s.do("POST", fleetPath+"/a/scale", scaleJSON(1)).refused(405, "MethodNotAllowed", "").header.Get("Allow"))
		s.do("DELETE", fleetPath+"/a/scale", "").refused(405, "MethodNotAllowed", "")
		require.Equal(t, before.doc, s.get(fleetPath+"/a").doc)
	})
}

func TestUPDATE_12_SSA_31_OwnersOfReplicas(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		s.fleet("a", `"size":3,"port":"kiel"`)
		require.Empty(t, owners(s.get(fleetPath+"/a/scale")), "the object has them")
		got := s.do("PUT", fleetPath+"/a/scale?fieldManager=hpa", scaleJSON(5)).is(200)
		require.Empty(t, owners(got))
		require.Equal(t, []string{"hpa Update/scale: spec/size", "maker Update: spec/. spec/port"}, slices.Sorted(slices.Values(owners(s.get(fleetPath+"/a")))))
		// A version that names replicas differently, and one without them.
		require.Empty(t, owners(s.get(fleet2Path+"/a/scale")))
		got = s.do("PUT", fleet2Path+"/a/scale?fieldManager=two", scaleJSON(6)).is(200)
		require.Empty(t, owners(got))
		object := s.get(fleetPath + "/a")
		require.InDelta(t, 6, object.at("spec", "size"), 0)
		require.Equal(t, []string{"maker Update: spec/. spec/port", "two Update/scale: spec/count"}, slices.Sorted(slices.Values(owners(object))))
		s.do("PUT", fleet3Path+"/a/scale?fieldManager=three", scaleJSON(7)).is(200)
		require.Equal(t, []string{"maker Update: spec/. spec/port", "three Update/scale: spec/size"}, slices.Sorted(slices.Values(owners(s.get(fleetPath+"/a")))))
		require.InDelta(t, 7, s.get(fleet3Path+"/a/scale").at("spec", "replicas"), 0)
		// Apply through the subresource, with a conflict and with force, and apply to the object.
		apply := func(query string, n int) *answer {
			return s.change(fleetPath+"/a/scale"+query, applyType, scaleJSON(n))
		}
		conflicts(apply("?fieldManager=ann", 8), ".spec.replicas")
		got = apply("?fieldManager=ann&force=true", 8).is(200)
		require.Empty(t, owners(got))
		require.ElementsMatch(t, []string{"ann Apply/scale: spec/size", "maker Update: spec/. spec/port"}, owners(s.get(fleetPath+"/a")))
		require.Equal(t, got.version(), apply("?fieldManager=ann", 8).is(200).version(), "again")
		main := func(n int) *answer {
			return s.change(fleetPath+"/a?fieldManager=bob", applyType, fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Fleet","metadata":{"name":"a"},"spec":{"size":%d}}`, n))
		}
		conflicts(main(9), ".spec.size")
		main(8).is(200)
		require.ElementsMatch(t, []string{"ann Apply/scale: spec/size", "bob Apply: spec/size", "maker Update: spec/. spec/port"}, owners(s.get(fleetPath+"/a")))
		s.change(fleetPath+"/a/scale?fieldManager=ann", applyType, `{"kind":"Scale","metadata":{"name":"a"}}`).refused(400, "BadRequest", "autoscaling/v1")
		// Whoever changes replicas without an owner becomes their owner. An untracked object stays
		// untracked.
		s.change(fleetPath, applyType, "").is(405)
		s.change(fleetPath+"/b?fieldManager=bob", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Fleet","metadata":{"name":"b"},"spec":{"port":"rostock"}}`).is(201)
		s.do("PUT", fleetPath+"/b/scale?fieldManager=hpa", `{"metadata":{"name":"b"},"spec":{"replicas":2}}`).is(200)
		require.ElementsMatch(t, []string{"bob Apply: spec/port", "hpa Update/scale: spec/size"}, owners(s.get(fleetPath+"/b")))
	})
}

// A manager that owned replicas through a version no longer served loses only them to a scale.
func TestUPDATE_12_VersionsThatAreNoLongerServed(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		s.do("POST", fleet2Path+"?fieldManager=two", `{"metadata":{"name":"a"},"spec":{"count":3,"port":"kiel"}}`).is(201)
		s.api.RemoveVersions(meta.GroupVersionResource{Group: group, Version: "v2", Resource: "fleets"})
		s.get(fleet2Path + "/a").is(404)
		s.do("PUT", fleetPath+"/a/scale?fieldManager=hpa", scaleJSON(5)).is(200)
		require.ElementsMatch(t, []string{"two Update: spec/. spec/port", "hpa Update/scale: spec/size"}, owners(s.get(fleetPath+"/a")))
	})
}

func TestUPDATE_12_ADM_06_ScalesAreAdmittedAsScales(t *testing.T) {
	var seen calls
	plugin := admission.Plugin{Name: "see", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if r.Subresource != "scale" {
			return admission.Allowed(r)
		}
		seen.add(fmt.Sprint("mutate ", r.Operation, " ", r.Kind, " ", r.Resource.Version, "/", r.Resource.Resource, " ", r.Name, " ", at(r.OldObject, "spec", "replicas"), "->", at(r.Object, "spec", "replicas")))
		if at(r.Object, "spec", "replicas") == int64(50) {
			return admission.Patched(r, admission.Set(10, "spec", "replicas"))
		}
		return admission.Allowed(r)
	}), Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Subresource == "scale" {
			seen.add(fmt.Sprint("validate ", r.Kind.Kind, " ", at(r.OldObject, "kind"), " ", at(r.OldObject, "spec", "replicas"), "->", at(r.Object, "spec", "replicas")))
			if at(r.Object, "spec", "replicas") == int64(13) {
				return admission.Denied(r, "unlucky")
			}
		}
		return nil
	})}
	onFleets(t, func(t *testing.T, s *server) {
		s.fleet("a", `"size":3`)
		seen.take()
		s.do("PUT", fleetPath+"/a/scale?fieldManager=hpa", scaleJSON(50)).is(200)
		require.Equal(t, []string{"mutate UPDATE autoscaling/v1, Kind=Scale v1/fleets a 3->50", "validate Scale Scale 3->10"}, seen.take())
		require.InDelta(t, 10, s.get(fleetPath+"/a").at("spec", "size"), 0)
		s.change(fleet3Path+"/a/scale", mergeType, `{"spec":{"replicas":13}}`).refused(403, "Forbidden", "unlucky")
		require.Equal(t, []string{"mutate UPDATE autoscaling/v1, Kind=Scale v3/fleets a 10->13", "validate Scale Scale 10->13"}, seen.take())
	}, kindwright.Admit(plugin))
}

func TestUPDATE_12_MODEL_07_ScalesAreAuthorizedAsSubresources(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		s.fleet("a", `"size":3`)
		bob := []string{"X-User", "bob", "X-Groups", ""}
		s.get(fleetPath+"/a/scale", bob...).is(200)
		s.get(fleetPath+"/a", bob...).refused(403, "Forbidden", "")
		s.do("PUT", fleetPath+"/a/scale", scaleJSON(4), bob...).refused(403, "Forbidden", `cannot update resource "fleets/scale"`)
		s.do("PATCH", fleetPath+"/a/scale", `{"spec":{"replicas":4}}`, append(bob, "Content-Type", mergeType)...).is(200)
		s.do("PATCH", fleetPath+"/a", `{"spec":{"size":4}}`, append(bob, "Content-Type", mergeType)...).refused(403, "Forbidden", "")
	}, kindwright.Authorize(allowing("bob get fleets/scale", "bob patch fleets/scale")))
}

func TestUPDATE_12_DISC_06_OAPI_01_ScalesAreDocumented(t *testing.T) {
	onFleets(t, func(t *testing.T, s *server) {
		for _, version := range []string{"v1", "v2", "v3"} {
			found := false
			for _, r := range s.get("/apis/shop.example.com/" + version).at("resources").([]any) {
				if at(r, "name") == "fleets/scale" {
					found = true
					require.Equal(t, map[string]any{
						"name": "fleets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": []any{"get", "patch", "update"},
					}, r)
				}
			}
			require.True(t, found, version)
			path := "/apis/shop.example.com/" + version + "/namespaces/{namespace}/fleets/{name}/scale"
			doc := s.get("/openapi/v3/apis/shop.example.com/" + version).is(200)
			for method, action := range map[string]string{"get": "get", "put": "put", "patch": "patch"} {
				require.Equal(t, map[string]any{"group": "autoscaling", "version": "v1", "kind": "Scale"}, doc.at("paths", path, method, "x-kubernetes-group-version-kind"))
				require.Equal(t, action, doc.at("paths", path, method, "x-kubernetes-action"))
				require.Equal(t, "#/components/schemas/io.k8s.api.autoscaling.v1.Scale", doc.at("paths", path, method, "responses", "200", "content", "application/json", "schema", "$ref"))
				require.NotNil(t, doc.at("paths", path, method, "responses", "200", "content", asProtobuf))
			}
			require.Equal(t, "#/components/schemas/io.k8s.api.autoscaling.v1.Scale", doc.at("paths", path, "put", "requestBody", "content", "application/json", "schema", "$ref"))
			require.Equal(t, "int32", doc.at("components", "schemas", "io.k8s.api.autoscaling.v1.Scale", "properties", "spec", "properties", "replicas", "format"))
			swagger := s.get("/openapi/v2").is(200)
			require.Equal(t, "#/definitions/io.k8s.api.autoscaling.v1.Scale", swagger.at("paths", path, "get", "responses", "200", "schema", "$ref"))
		}
	})
}
