package meta_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func ptr[T any](v T) *T { return &v }

// full fills every field, so that each JSON name and its place show.
func fullObjectMeta() meta.ObjectMeta {
	at := meta.NewTime(time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC))
	return meta.ObjectMeta{
		Name: "n", GenerateName: "g-", Namespace: "ns", SelfLink: "/s", UID: "u", ResourceVersion: "7", Generation: 2,
		CreationTimestamp: at, DeletionTimestamp: &at, DeletionGracePeriodSeconds: ptr(int64(0)),
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "<2>"},
		OwnerReferences: []meta.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "ou", Controller: ptr(true), BlockOwnerDeletion: ptr(false)}},
		Finalizers:      []string{"example.dev/f"},
		ManagedFields: []meta.ManagedFieldsEntry{{
			Manager: "m", Operation: meta.ManagedFieldsOperationApply, APIVersion: "v1", Time: &at,
			FieldsType: meta.FieldsTypeV1, FieldsV1: meta.RawJSON(`{"f:spec":{}}`), Subresource: "status",
		}},
	}
}

const fullObjectMetaJSON = `{"name":"n","generateName":"g-","namespace":"ns","selfLink":"/s","uid":"u","resourceVersion":"7","generation":2,` +
	`"creationTimestamp":"2024-01-02T03:04:05Z","deletionTimestamp":"2024-01-02T03:04:05Z","deletionGracePeriodSeconds":0,` +
	`"labels":{"l":"1"},"annotations":{"a":"\u003c2\u003e"},` +
	`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"ou","controller":true,"blockOwnerDeletion":false}],` +
	`"finalizers":["example.dev/f"],"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2024-01-02T03:04:05Z",` +
	`"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}},"subresource":"status"}]}`

func TestDocumentsAsJSON(t *testing.T) {
	list := meta.ListMeta{SelfLink: "/s", ResourceVersion: "7", Continue: "c", RemainingItemCount: ptr(int64(3))}
	const listJSON = `{"selfLink":"/s","resourceVersion":"7","continue":"c","remainingItemCount":3}`
	tm := func(kind, version string) meta.TypeMeta { return meta.TypeMeta{Kind: kind, APIVersion: version} }
	gvk := &meta.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}

	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"META-01 empty metadata":       {meta.ObjectMeta{}, `{}`},
		"META full metadata":           {fullObjectMeta(), fullObjectMetaJSON},
		"COLL empty list metadata":     {meta.ListMeta{}, `{}`},
		"COLL full list metadata":      {list, listJSON},
		"owner reference keeps blanks": {meta.OwnerReference{}, `{"apiVersion":"","kind":"","name":"","uid":""}`},
		"ERR-22 empty status":          {meta.Status{}, `{"metadata":{}}`},
		"ERR-22 full status": {
			meta.Status{
				TypeMeta: tm("Status", "v1"), ListMeta: meta.ListMeta{Continue: "c"}, Status: meta.StatusFailure, Message: "m", Reason: meta.ReasonInvalid,
				Details: &meta.StatusDetails{
					Name: "n", Group: "g", Kind: "K", UID: "u", RetryAfterSeconds: 1,
					Causes: []meta.StatusCause{{Type: meta.CauseFieldValueInvalid, Message: "c", Field: "spec.x"}, {}},
				}, Code: 422,
			},
			`{"kind":"Status","apiVersion":"v1","metadata":{"continue":"c"},"status":"Failure","message":"m","reason":"Invalid",` +
				`"details":{"name":"n","group":"g","kind":"K","uid":"u","causes":[{"reason":"FieldValueInvalid","message":"c","field":"spec.x"},{}],"retryAfterSeconds":1},"code":422}`,
		},
		"TABLE-02 to 09 table": {
			meta.Table{
				TypeMeta: tm("Table", "meta.k8s.io/v1"), ListMeta: list,
				ColumnDefinitions: []meta.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "d"}},
				Rows: []meta.TableRow{
					{Cells: []any{"a", 1, nil}, Object: meta.RawJSON(`{"kind":"PartialObjectMetadata"}`)},
					{Cells: []any{}, Conditions: []meta.TableRowCondition{{Type: meta.RowCompleted, Status: meta.ConditionTrue}}},
				},
			},
			`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":` + listJSON + `,` +
				`"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"d","priority":0}],` +
				`"rows":[{"cells":["a",1,null],"object":{"kind":"PartialObjectMetadata"}},{"cells":[],"conditions":[{"type":"Completed","status":"True"}],"object":null}]}`,
		},
		"TABLE-10 partial metadata": {
			meta.PartialObjectMetadataList{Items: []meta.PartialObjectMetadata{{TypeMeta: tm("PartialObjectMetadata", "meta.k8s.io/v1"), ObjectMeta: meta.Named("ns", "n")}}},
			`{"metadata":{},"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n","namespace":"ns"}}]}`,
		},
		"WATCH event": {meta.WatchEvent{Type: meta.Added, Object: meta.RawJSON(`{"a":1}`)}, `{"type":"ADDED","object":{"a":1}}`},
		"list options": {
			meta.ListOptions{
				LabelSelector: "l", FieldSelector: "f", Watch: true, AllowWatchBookmarks: true, ResourceVersion: "1", ResourceVersionMatch: meta.ResourceVersionMatchExact,
				TimeoutSeconds: ptr(int64(1)), Limit: 2, Continue: "c", SendInitialEvents: ptr(false),
			},
			`{"labelSelector":"l","fieldSelector":"f","watch":true,"allowWatchBookmarks":true,"resourceVersion":"1","resourceVersionMatch":"Exact",` +
				`"timeoutSeconds":1,"limit":2,"continue":"c","sendInitialEvents":false}`,
		},
		"get options":    {meta.GetOptions{ResourceVersion: "1"}, `{"resourceVersion":"1"}`},
		"create options": {meta.CreateOptions{DryRun: []string{meta.DryRunAll}, FieldManager: "m", FieldValidation: meta.FieldValidationStrict}, `{"dryRun":["All"],"fieldManager":"m","fieldValidation":"Strict"}`},
		"update options": {meta.UpdateOptions{TypeMeta: tm("UpdateOptions", "meta.k8s.io/v1")}, `{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}`},
		"patch options":  {meta.PatchOptions{Force: ptr(false), FieldManager: "m"}, `{"force":false,"fieldManager":"m"}`},
		"delete options": {
			meta.DeleteOptions{
				GracePeriodSeconds: ptr(int64(0)), Preconditions: &meta.Preconditions{UID: ptr(meta.UID("u")), ResourceVersion: ptr("7")}, OrphanDependents: ptr(true),
				PropagationPolicy: ptr(meta.DeletePropagationForeground), DryRun: []string{"All"}, IgnoreStoreReadErrorWithClusterBreakingPotential: ptr(true),
			},
			`{"gracePeriodSeconds":0,"preconditions":{"uid":"u","resourceVersion":"7"},"orphanDependents":true,"propagationPolicy":"Foreground","dryRun":["All"],` +
				`"ignoreStoreReadErrorWithClusterBreakingPotential":true}`,
		},
		"DISC-01 versions": {
			meta.APIVersions{Versions: []string{"v1"}, ServerAddressByClientCIDRs: []meta.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: "h:1"}}},
			`{"versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"h:1"}]}`,
		},
		"DISC-02 and 03 groups": {
			meta.APIGroupList{Groups: []meta.APIGroup{{
				Name: "g", Versions: []meta.GroupVersionForDiscovery{{GroupVersion: "g/v1", Version: "v1"}}, PreferredVersion: meta.GroupVersionForDiscovery{GroupVersion: "g/v1", Version: "v1"},
			}}},
			`{"groups":[{"name":"g","versions":[{"groupVersion":"g/v1","version":"v1"}],"preferredVersion":{"groupVersion":"g/v1","version":"v1"}}]}`,
		},
		"DISC-04 and 05 resources": {
			meta.APIResourceList{GroupVersion: "g/v1", APIResources: []meta.APIResource{
				{
					Name: "ks", SingularName: "k", Namespaced: true, Group: "o", Version: "v2", Kind: "K", Verbs: []string{"get"}, ShortNames: []string{"s"},
					Categories: []string{"all"}, StorageVersionHash: "h",
				},
				{Name: "ks/status"},
			}},
			`{"groupVersion":"g/v1","resources":[{"name":"ks","singularName":"k","namespaced":true,"group":"o","version":"v2","kind":"K","verbs":["get"],` +
				`"shortNames":["s"],"categories":["all"],"storageVersionHash":"h"},{"name":"ks/status","singularName":"","namespaced":false,"kind":"","verbs":null}]}`,
		},
		"DISC-07 aggregated": {
			meta.APIGroupDiscoveryList{Items: []meta.APIGroupDiscovery{{ObjectMeta: meta.Named("", "g"), Versions: []meta.APIVersionDiscovery{{
				Version: "v1", Freshness: meta.DiscoveryFreshnessCurrent, Resources: []meta.APIResourceDiscovery{{
					Resource: "ks", ResponseKind: gvk, Scope: meta.ScopeNamespace, SingularResource: "k", Verbs: []string{"get"}, ShortNames: []string{"s"}, Categories: []string{"all"},
					Subresources: []meta.APISubresourceDiscovery{{Subresource: "status", ResponseKind: gvk, AcceptedTypes: []meta.GroupVersionKind{*gvk}, Verbs: []string{"get"}}},
				}},
			}}}}},
			`{"metadata":{},"items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"ks","responseKind":{"group":"g","version":"v1","kind":"K"},` +
				`"scope":"Namespaced","singularResource":"k","verbs":["get"],"shortNames":["s"],"categories":["all"],"subresources":[{"subresource":"status",` +
				`"responseKind":{"group":"g","version":"v1","kind":"K"},"acceptedTypes":[{"group":"g","version":"v1","kind":"K"}],"verbs":["get"]}]}],"freshness":"Current"}]}]}`,
		},
		"root paths": {meta.RootPaths{Paths: []string{"/api"}}, `{"paths":["/api"]}`},
		"label selector": {
			meta.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []meta.LabelSelectorRequirement{{Key: "k", Operator: meta.Exists}}},
			`{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"Exists"}]}`,
		},
		"condition": {
			meta.Condition{Type: "Ready", Status: meta.ConditionFalse},
			`{"type":"Ready","status":"False","lastTransitionTime":null,"reason":"","message":""}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(c.value)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))

			back := reflect.New(reflect.TypeOf(c.value))
			d := json.NewDecoder(strings.NewReader(c.want))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(back.Interface()))
			again, err := json.Marshal(back.Interface())
			require.NoError(t, err)
			require.Equal(t, c.want, string(again))
		})
	}
}

func TestNullsOfOlderClientsAreAccepted(t *testing.T) {
	m := meta.ObjectMeta{CreationTimestamp: meta.NewTime(time.Unix(1, 0))}
	in := `{"creationTimestamp":null,"deletionTimestamp":null,"labels":null,"managedFields":[{"time":null,"fieldsV1":null}]}`
	require.NoError(t, json.Unmarshal([]byte(in), &m))
	require.Equal(t, meta.ObjectMeta{ManagedFields: []meta.ManagedFieldsEntry{{}}}, m)
}

func TestRawJSON(t *testing.T) {
	text := []byte(`{"a": [1, 2.50]}`)
	var r meta.RawJSON
	require.NoError(t, r.UnmarshalJSON(text))
	text[2] = 'X'
	require.Equal(t, `{"a": [1, 2.50]}`, string(r), "a copy")
	b, err := r.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(r), string(b))

	require.NoError(t, r.UnmarshalJSON([]byte("null")))
	require.Nil(t, r)
	b, err = r.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, "null", string(b))
}

func TestObjectMetaIsReachedThroughStructsThatEmbedIt(t *testing.T) {
	o := &meta.PartialObjectMetadata{ObjectMeta: meta.Named("team", "blue")}
	var any any = o
	holder, ok := any.(interface{ GetObjectMeta() *meta.ObjectMeta })
	require.True(t, ok)
	holder.GetObjectMeta().Name = "red"
	require.Equal(t, "red", o.Name)
	require.Equal(t, meta.Key{Namespace: "team", Name: "red"}, o.Key())
	require.Equal(t, "team/red", o.Key().String())
	require.Equal(t, "red", meta.Named("", "red").Key().String())
}

// Protobuf numbers are a promise of the wire: no two fields of a message may share one, and each
// must say how it is coded.
func TestProtobufTags(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, v := range []any{
		meta.PartialObjectMetadataList{},
		meta.Status{},
		meta.ListOptions{},
		meta.GetOptions{},
		meta.CreateOptions{},
		meta.UpdateOptions{},
		meta.PatchOptions{},
		meta.DeleteOptions{},
		meta.APIVersions{},
		meta.APIGroupList{},
		meta.APIResourceList{},
		meta.APIGroupDiscoveryList{},
		meta.RootPaths{},
		meta.LabelSelector{},
		meta.WatchEvent{},
		meta.Condition{},
	} {
		checkProtobuf(t, seen, reflect.TypeOf(v))
	}
	require.Greater(t, len(seen), 30)
}

func checkProtobuf(t *testing.T, seen map[reflect.Type]bool, m reflect.Type) {
	for m.Kind() == reflect.Pointer || m.Kind() == reflect.Slice {
		m = m.Elem()
	}
	if m.Kind() != reflect.Struct || seen[m] || m == reflect.TypeFor[meta.Time]() {
		return
	}
	seen[m] = true
	numbers := map[string]string{}
	for f := range m.Fields() {
		checkProtobuf(t, seen, f.Type)
		if f.Type == reflect.TypeFor[meta.TypeMeta]() {
			continue // stands outside the message, in the envelope
		}
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		require.GreaterOrEqual(t, len(parts), 3, "%s.%s", m, f.Name)
		require.Empty(t, numbers[parts[1]], "%s.%s", m, f.Name)
		numbers[parts[1]] = f.Name
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		require.Equal(t, "name="+name, parts[len(parts)-1], "%s.%s", m, f.Name)
		base := f.Type
		if base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		want := "bytes"
		switch base.Kind() {
		case reflect.Bool, reflect.Int32, reflect.Int64:
			want = "varint"
		}
		require.Equal(t, want, parts[0], "%s.%s", m, f.Name)
	}
}
