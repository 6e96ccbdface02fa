package patch

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

type container struct {
	Name  string            `json:"name"`
	Image string            `json:"image,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Ports []containerPort   `json:"ports,omitempty" patchStrategy:"merge" patchMergeKey:"port"`
}

type containerPort struct {
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty" default:"TCP"`
}

type crew struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            crewSpec `json:"spec"`
}

type crewSpec struct {
	Containers []container       `json:"containers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Words      []string          `json:"words,omitempty" patchStrategy:"merge"`
	Plain      []string          `json:"plain,omitempty"`
	Objects    []container       `json:"objects,omitempty"`
	Tagged     []containerPort   `json:"tagged,omitempty" list:"map,key=port,key=protocol"`
	Tags       []string          `json:"tags,omitempty" list:"set"`
	Strategy   *deployment       `json:"strategy,omitempty" patchStrategy:"retainKeys"`
	Whole      map[string]string `json:"whole,omitempty" patchStrategy:"replace"`
	Part       map[string]string `json:"part,omitempty"`
}

type deployment struct {
	Type    string            `json:"type,omitempty"`
	Rolling map[string]string `json:"rolling,omitempty"`
}

func crewSchema(t testing.TB) *openapi.Schema {
	t.Helper()
	s, err := openapi.FromType(reflect.TypeFor[crew]())
	require.NoError(t, err)
	return s
}

// Each case has the spec of an object, that of a patch, and the result. After an exclamation mark,
// the result is the status code and a part of the error message.
var strategicCases = map[string]struct{ original, patch, want string }{
	"PATCH-09 maps merge, null removes":          {`{"part":{"a":"1","b":"2"}}`, `{"part":{"b":null,"c":"3"}}`, `{"part":{"a":"1","c":"3"}}`},
	"PATCH-09 nothing to remove":                 {`{}`, `{"part":{"b":null}}`, `{"part":{}}`},
	"PATCH-09 items merge by their key":          {`{"containers":[{"name":"a","image":"x"},{"name":"b"}]}`, `{"containers":[{"name":"b","image":"y"}]}`, `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]}`},
	"PATCH-09 in depth":                          {`{"containers":[{"name":"a","ports":[{"port":1},{"port":2}]}]}`, `{"containers":[{"name":"a","ports":[{"port":2,"protocol":"UDP"}]}]}`, `{"containers":[{"name":"a","ports":[{"port":1},{"port":2,"protocol":"UDP"}]}]}`},
	"PATCH-09 null inside an item":               {`{"containers":[{"name":"a","image":"x"}]}`, `{"containers":[{"name":"a","image":null},{"name":"n","image":null}]}`, `{"containers":[{"name":"a"},{"name":"n"}]}`},
	"PATCH-09 new items come first":              {`{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"c"}]}`, `{"containers":[{"name":"c"},{"name":"a"},{"name":"b"}]}`},
	"PATCH-09 but not before what they follow":   {`{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"b"},{"name":"c"}]}`, `{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}`},
	"PATCH-09 items take the patch's order":      {`{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"b"},{"name":"a"}]}`, `{"containers":[{"name":"b"},{"name":"a"}]}`},
	"PATCH-09 a new list":                        {`{}`, `{"containers":[{"name":"a"},{"name":"b","$patch":"delete"}]}`, `{"containers":[{"name":"a"}]}`},
	"PATCH-09 scalars are added once":            {`{"words":["a","b"]}`, `{"words":["b","c"]}`, `{"words":["a","b","c"]}`},
	"PATCH-09 a list without strategy":           {`{"plain":["a","b"]}`, `{"plain":["c"]}`, `{"plain":["c"]}`},
	"PATCH-09 a list of objects without one":     {`{"objects":[{"name":"a","image":"x"}]}`, `{"objects":[{"name":"a"}]}`, `{"objects":[{"name":"a"}]}`},
	"PATCH-17 no directives in such a list":      {`{"objects":[{"name":"a","image":"x"}]}`, `{"objects":[{"name":"a","$patch":"delete"},{"name":"b"}]}`, `{"objects":[{"$patch":"delete","name":"a"},{"name":"b"}]}`},
	"PATCH-17 but where there are no items":      {`{"objects":[]}`, `{"objects":[{"name":"a","$patch":"delete"},{"name":"b"}]}`, `{"objects":[{"name":"b"}]}`},
	"PATCH-09 a list removed":                    {`{"words":["a"],"containers":[{"name":"a"}]}`, `{"words":null,"containers":null}`, `{}`},
	"PATCH-09 an empty list merges nothing":      {`{"words":["a"],"containers":[{"name":"a"}]}`, `{"words":[],"containers":[]}`, `{"containers":[{"name":"a"}],"words":["a"]}`},
	"PATCH-09 our own tags: set":                 {`{"tags":["a"]}`, `{"tags":["b"]}`, `{"tags":["b","a"]}`},
	"PATCH-09 our own tags: keys":                {`{"tagged":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}`, `{"tagged":[{"port":53,"protocol":"TCP"},{"port":54}]}`, `{"tagged":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"},{"port":54}]}`},
	"PATCH-09 a key's default":                   {`{"tagged":[{"port":53,"protocol":"TCP"}]}`, `{"tagged":[{"port":53}]}`, `{"tagged":[{"port":53,"protocol":"TCP"}]}`},
	"PATCH-09 strategy replace":                  {`{"whole":{"a":"1"}}`, `{"whole":{"b":"2"}}`, `{"whole":{"b":"2"}}`},
	"PATCH-09 an object where a list was":        {`{"words":["a"]}`, `{"words":{"a":"1"}}`, `{"words":{"a":"1"}}`},
	"PATCH-09 fields without a schema":           {`{"odd":{"a":[1],"b":1}}`, `{"odd":{"a":[2]}}`, `{"odd":{"a":[2],"b":1}}`},
	"PATCH-17 $patch delete of an item":          {`{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"a","$patch":"delete"}]}`, `{"containers":[{"name":"b"}]}`},
	"PATCH-17 deleting what is not there":        {`{"containers":[{"name":"a"}]}`, `{"containers":[{"name":"z","$patch":"delete"}]}`, `{"containers":[{"name":"a"}]}`},
	"PATCH-17 $patch delete of an object":        {`{"part":{"a":"1"}}`, `{"part":{"$patch":"delete"}}`, `{"part":{}}`},
	"PATCH-17 of an object that is not there":    {`{}`, `{"part":{"$patch":"delete"}}`, `{}`},
	"PATCH-17 $patch replace of an object":       {`{"part":{"a":"1"}}`, `{"part":{"$patch":"replace","b":"2"}}`, `{"part":{"b":"2"}}`},
	"PATCH-17 $patch replace of a list":          {`{"containers":[{"name":"a","image":"x"},{"name":"b"}]}`, `{"containers":[{"$patch":"replace"},{"name":"a"}]}`, `{"containers":[{"name":"a"}]}`},
	"PATCH-17 replaced by nothing":               {`{"containers":[{"name":"a"}]}`, `{"containers":[{"$patch":"replace"}]}`, `{"containers":[]}`},
	"PATCH-17 $patch merge":                      {`{"part":{"a":"1"}}`, `{"part":{"$patch":"merge","b":"2"}}`, `{"part":{"a":"1","b":"2"}}`},
	"PATCH-17 $patch inside an item":             {`{"containers":[{"name":"a","env":{"x":"1"}}]}`, `{"containers":[{"name":"a","env":{"$patch":"replace","y":"2"}}]}`, `{"containers":[{"env":{"y":"2"},"name":"a"}]}`},
	"PATCH-17 $patch of another kind":            {`{}`, `{"part":{"$patch":"burn"}}`, `!400 $patch`},
	"PATCH-17 $patch of an item, another kind":   {`{}`, `{"containers":[{"name":"a","$patch":7}]}`, `!400 $patch`},
	"PATCH-17 $retainKeys":                       {`{"strategy":{"type":"Rolling","rolling":{"a":"1"}}}`, `{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}`, `{"strategy":{"type":"Recreate"}}`},
	"PATCH-17 $retainKeys keeps what it lists":   {`{"part":{"a":"1","b":"2","c":"3"}}`, `{"part":{"$retainKeys":["a","d"],"d":"4","c":null}}`, `{"part":{"a":"1","d":"4"}}`},
	"PATCH-17 $retainKeys must list what is set": {`{}`, `{"part":{"$retainKeys":["a"],"b":"2"}}`, `!400 $retainKeys`},
	"PATCH-17 $retainKeys is a list":             {`{}`, `{"part":{"$retainKeys":"a"}}`, `!400 $retainKeys`},
	"PATCH-17 $retainKeys has names":             {`{}`, `{"part":{"$retainKeys":[["a"]]}}`, `!400 $retainKeys`},
	"PATCH-17 $deleteFromPrimitiveList":          {`{"words":["a","b","a"]}`, `{"$deleteFromPrimitiveList/words":["a","z"]}`, `{"words":["b"]}`},
	"PATCH-17 deleting and adding":               {`{"words":["a","b"]}`, `{"$deleteFromPrimitiveList/words":["a"],"words":["c"]}`, `{"words":["c","b"]}`},
	"PATCH-17 deleting from no list":             {`{"part":{"a":"1"}}`, `{"$deleteFromPrimitiveList/part":["a"],"$deleteFromPrimitiveList/words":["a"]}`, `{"part":{"a":"1"}}`},
	"PATCH-17 deleting needs a list":             {`{}`, `{"$deleteFromPrimitiveList/words":"a"}`, `!400 $deleteFromPrimitiveList`},
	"PATCH-17 of scalars":                        {`{"words":["a"]}`, `{"$deleteFromPrimitiveList/words":[{}]}`, `!400 $deleteFromPrimitiveList`},
	"PATCH-17 $setElementOrder alone":            {`{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, `{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}]}`, `{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]}`},
	"PATCH-17 $setElementOrder and items":        {`{"containers":[{"name":"a"},{"name":"b"}]}`, `{"$setElementOrder/containers":[{"name":"b"},{"name":"c"},{"name":"a"}],"containers":[{"name":"c"}]}`, `{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]}`},
	"PATCH-17 order of scalars":                  {`{"words":["a","b"]}`, `{"$setElementOrder/words":["c","b","a"],"words":["c"]}`, `{"words":["c","b","a"]}`},
	"PATCH-17 order of a new list":               {`{}`, `{"$setElementOrder/words":["b","a"],"words":["b","a"]}`, `{"words":["b","a"]}`},
	"PATCH-17 order of nothing":                  {`{}`, `{"$setElementOrder/words":["b","a"]}`, `{}`},
	"PATCH-17 order and deletion":                {`{"containers":[{"name":"a"},{"name":"b"}]}`, `{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"name":"a","$patch":"delete"}]}`, `{"containers":[{"name":"b"}]}`},
	"PATCH-17 an order that disagrees":           {`{}`, `{"$setElementOrder/words":["b","a"],"words":["a","b"]}`, `!400 $setElementOrder`},
	"PATCH-17 an order that leaves out":          {`{}`, `{"$setElementOrder/words":["b"],"words":["a","b"]}`, `!400 $setElementOrder`},
	"PATCH-17 an order that is none":             {`{}`, `{"$setElementOrder/words":"b"}`, `!400 $setElementOrder`},
	"PATCH-17 order of what is no list":          {`{"part":{"a":"1"}}`, `{"$setElementOrder/part":["b"]}`, `!422 is not a list`},
	"PATCH-17 a directive that is none":          {`{}`, `{"$burn":1}`, `!400 $burn`},
	"PATCH-15 an item without its key":           {`{"containers":[{"name":"a"}]}`, `{"containers":[{"image":"x"}]}`, `!422 merge key name`},
	"PATCH-15 a key that is an object":           {`{"containers":[{"name":"a"}]}`, `{"containers":[{"name":{}}]}`, `!422 merge key name`},
	"PATCH-15 objects among scalars":             {`{"words":["a"]}`, `{"words":[{"a":1}]}`, `!422 list`},
	"PATCH-15 lists of lists":                    {`{"words":["a"]}`, `{"words":[["a"]]}`, `!422 lists of lists`},
}

func TestStrategic(t *testing.T) {
	schema := crewSchema(t)
	for name, c := range strategicCases {
		t.Run(name, func(t *testing.T) {
			original := object(t, `{"spec":`+c.original+`}`)
			before := text(t, original)
			got, err := Strategic(original, []byte(`{"spec":`+c.patch+`}`), schema, Options{Kind: meta.GroupKind{Kind: "Crew"}, Name: "c"})
			require.Equal(t, before, text(t, original), "the original was changed")
			if want, refused := strings.CutPrefix(c.want, "!"); refused {
				var code int
				var part string
				_, _ = fmt.Sscan(want, &code)
				_, part, _ = strings.Cut(want, " ")
				require.Equal(t, code, status.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, part)
				return
			}
			require.NoError(t, err)
			require.Equal(t, `{"spec":`+c.want+`}`, text(t, got))
		})
	}
}

func TestPATCH_09_MetadataOfEveryKind(t *testing.T) {
	original := object(t, `{"metadata":{"finalizers":["a.example/x"],"labels":{"a":"b"},"ownerReferences":[{"uid":"1","name":"one"}]}}`)
	got, err := Strategic(original, []byte(`{"metadata":{"finalizers":["b.example/y"],"labels":{"a":null,"c":"d"},"ownerReferences":[{"uid":"2","name":"two"},{"$patch":"delete","uid":"1"}]}}`), crewSchema(t), Options{})
	require.NoError(t, err)
	require.Equal(t, `{"metadata":{"finalizers":["b.example/y","a.example/x"],"labels":{"c":"d"},"ownerReferences":[{"name":"two","uid":"2"}]}}`, text(t, got))
}

func TestPATCH_15_NoStrategicPatch(t *testing.T) {
	for _, body := range []string{``, `[]`, `"x"`, `{"a":1`, `null`} {
		_, err := Strategic(object(t, `{}`), []byte(body), nil, Options{})
		require.Equal(t, http.StatusBadRequest, status.CodeOf(err), "%q: %v", body, err)
	}
}

// Merging long lists takes approximately linear time. Quadratic time would mean hundreds of
// millions of comparisons here.
func TestB12_StrategicLongLists(t *testing.T) {
	const n = 25_000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"c%d"},`, i)
	}
	list := strings.TrimSuffix(b.String(), ",")
	original := object(t, `{"spec":{"containers":[`+list+`]}}`)
	got, err := Strategic(original, []byte(`{"spec":{"containers":[`+list+`,{"name":"new"}]}}`), crewSchema(t), Options{})
	require.NoError(t, err)
	require.Len(t, got["spec"].(map[string]any)["containers"], n+1)
}

func FuzzStrategic(f *testing.F) {
	for _, c := range strategicCases {
		f.Add([]byte(`{"spec":`+c.original+`}`), []byte(`{"spec":`+c.patch+`}`))
	}
	schema := crewSchema(f)
	f.Fuzz(func(t *testing.T, original, patch []byte) {
		tree, err := json.DecodeTree(original, json.TreeOptions{})
		before, ok := tree.(map[string]any)
		if err != nil || !ok {
			return
		}
		held := text(t, before)
		after, err := Strategic(before, patch, schema, Options{})
		require.Equal(t, held, text(t, before), "the original was changed")
		if err != nil {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, status.CodeOf(err))
			return
		}
		require.LessOrEqual(t, len(text(t, after)), 2*(len(held)+len(patch))+64)
	})
}

// Ports merge by number, and TCP and UDP may share a number. An object without ports gets both.
func TestPATCH_17_AListThatWasNotThereIsTakenAsItIs(t *testing.T) {
	type port struct {
		Port     int32  `json:"port"`
		Protocol string `json:"protocol,omitempty"`
	}
	s, err := openapi.FromType(reflect.TypeFor[struct {
		Ports []port `json:"ports,omitempty" patchStrategy:"merge" patchMergeKey:"port"`
	}]())
	require.NoError(t, err)
	body := []byte(`{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}`)
	got, err := Strategic(map[string]any{}, body, s, Options{})
	require.NoError(t, err)
	require.Len(t, got["ports"], 2)
	got, err = Strategic(map[string]any{"ports": []any{}}, body, s, Options{})
	require.NoError(t, err)
	require.Len(t, got["ports"], 1, "an empty list is one to merge with")
}

// Types that follow the patch tags merge by them alone, whatever their list types are.
func TestPATCH_17_TaggedTypesMergeByTheirTags(t *testing.T) {
	o, err := openapi.ParseOverlay([]byte(`{"shared": true, "required": "tagged"}`))
	require.NoError(t, err)
	typ := reflect.TypeFor[struct {
		Set []string          `json:"set" list:"set"`
		Map map[string]string `json:"map" map:"atomic"`
	}]()
	for want, options := range map[string][]openapi.Option{
		`{"map":{"b":"2"},"set":["b","a"]}`:     nil,
		`{"map":{"a":"1","b":"2"},"set":["b"]}`: {openapi.WithOverlay(o)},
	} {
		s, err := openapi.FromType(typ, options...)
		require.NoError(t, err)
		got, err := Strategic(map[string]any{"set": []any{"a"}, "map": map[string]any{"a": "1"}}, []byte(`{"set":["b"],"map":{"b":"2"}}`), s, Options{})
		require.NoError(t, err)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
}
