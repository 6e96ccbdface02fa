package negotiate

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// everything is the offer of a handler of an ordinary kind.
var everything = Offer{Table: true, Metadata: true}

func asked(accept ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/apis/example.dev/v1/widgets", nil)
	if len(accept) > 0 {
		r.Header["Accept"] = accept
	}
	return r
}

const (
	table    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	oldTable = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
	partial  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partials = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

func TestNegotiate(t *testing.T) {
	list := Offer{Table: true, Metadata: true, List: true}
	watch := Offer{Table: true, Metadata: true, List: true, Watch: true}
	object := Result{}
	inYAML := Result{MediaType: YAML}
	v1Table := Result{As: Table, Group: "meta.k8s.io", Version: V1}
	for name, c := range map[string]struct {
		offer  Offer
		accept []string
		want   Result
	}{
		"nothing asked":                     {everything, nil, object},
		"empty header":                      {everything, []string{""}, object},
		"only commas":                       {everything, []string{" , ,"}, object},
		"anything":                          {everything, []string{"*/*"}, object},
		"any application":                   {everything, []string{"application/*"}, object},
		"JSON":                              {everything, []string{"application/json"}, object},
		"letter case does not matter":       {everything, []string{"Application/YAML"}, inYAML},
		"PATH-26 YAML":                      {everything, []string{"application/yaml"}, inYAML},
		"second header field":               {everything, []string{"image/png", "application/yaml"}, inYAML},
		"first of the list":                 {everything, []string{"application/yaml, application/json"}, inYAML},
		"weights":                           {everything, []string{"application/yaml;q=0.3, application/json;q=0.31"}, object},
		"weight 0 is never":                 {everything, []string{"application/json;q=0, application/yaml;q=0.001"}, inYAML},
		"wildcard without what is excluded": {everything, []string{"*/*, application/json;q=0"}, inYAML},
		"named beats wildcard of the same weight": {everything, []string{"*/*, application/yaml"}, inYAML},
		"wildcard of a greater weight":            {everything, []string{"application/yaml;q=0.5,*/*"}, object},
		"a browser":                               {everything, []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"}, object},
		"charset":                                 {everything, []string{"application/json; charset=UTF-8"}, object},
		"foreign charset is passed over":          {everything, []string{"application/json;charset=utf-16, application/yaml"}, inYAML},
		"unknown parameters do no harm":           {everything, []string{`application/yaml;x="a,b;c\"d";profile=p`}, inYAML},
		"malformed elements are passed over":      {everything, []string{`application, application/json;as, a b/c, application/json;q=2, ="x, application/yaml`, "application/yaml"}, inYAML},

		"TABLE-01 single object":              {everything, []string{table}, v1Table},
		"TABLE-01 list":                       {list, []string{table}, v1Table},
		"TABLE-01 any order of parameters":    {list, []string{"application/json;v=v1;g=meta.k8s.io;as=Table"}, v1Table},
		"TABLE-01 as kubectl asks":            {list, []string{table + "," + oldTable + ",application/json"}, v1Table},
		"TABLE-01 quoted":                     {list, []string{`application/json ; as="Table"; g="meta.k8s.io" ;v="v1"`}, v1Table},
		"TABLE-06 fallback of a kind without": {Offer{List: true}, []string{table + "," + oldTable + ",application/json"}, object},
		"TABLE-11":                            {list, []string{oldTable}, Result{As: Table, Group: "meta.k8s.io", Version: V1Beta1}},
		"table in YAML":                       {list, []string{strings.Replace(table, "json", "yaml", 1)}, Result{MediaType: YAML, As: Table, Group: "meta.k8s.io", Version: V1}},
		"WATCH-33 table":                      {watch, []string{table}, Result{As: Table, Group: "meta.k8s.io", Version: V1, Stream: true}},
		"unknown version falls through":       {list, []string{"application/json;as=Table;v=v2;g=meta.k8s.io,application/json"}, object},
		"own group domain":                    {Offer{GroupDomain: "example.org", Table: true}, []string{table, strings.ReplaceAll(table, "k8s.io", "example.org")}, Result{As: Table, Group: "meta.example.org", Version: V1}},

		"TABLE-10 object": {everything, []string{partial}, Result{As: PartialObjectMetadata, Group: "meta.k8s.io", Version: V1}},
		"TABLE-10 list":   {list, []string{partials}, Result{As: PartialObjectMetadataList, Group: "meta.k8s.io", Version: V1}},
		"TABLE-10 the metadata client": {
			list,
			[]string{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + partials + ",application/json"},
			Result{MediaType: Protobuf, As: PartialObjectMetadataList, Group: "meta.k8s.io", Version: V1},
		},
		"TABLE-10 watch of objects": {watch, []string{partial}, Result{As: PartialObjectMetadata, Group: "meta.k8s.io", Version: V1, Stream: true}},

		"PATH-19 protobuf in a list":             {everything, []string{"application/vnd.kubernetes.protobuf,application/json"}, object},
		"PATH-19 protobuf of a kind that has it": {Offer{Protobuf: true}, []string{"application/vnd.kubernetes.protobuf,application/json"}, Result{MediaType: Protobuf}},
		"WATCH-35 protobuf stream":               {Offer{Protobuf: true, Watch: true}, []string{"application/vnd.kubernetes.protobuf,application/json"}, Result{MediaType: Protobuf, Stream: true}},
		"no tables in protobuf":                  {Offer{Protobuf: true, Table: true, Metadata: true}, []string{"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1, application/json"}, object},
		"CBOR in a list":                         {everything, []string{"application/cbor, application/json;q=0.9"}, object},
		"stream":                                 {watch, []string{"application/json;stream=watch"}, Result{Stream: true}},
		"stream without parameter":               {watch, []string{"application/json, */*"}, Result{Stream: true}},
		"no YAML in a stream":                    {watch, []string{"application/yaml, application/json;q=0.1"}, Result{Stream: true}},

		"DISC-07": {
			Offer{Discovery: true},
			[]string{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"},
			Result{As: APIGroupDiscoveryList, Group: "apidiscovery.k8s.io", Version: V2},
		},
		"DISC-07 without peers": {
			Offer{Discovery: true},
			[]string{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json"},
			Result{As: APIGroupDiscoveryList, Group: "apidiscovery.k8s.io", Version: V2},
		},
		"DISC-07 old version falls through": {Offer{Discovery: true}, []string{"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"}, object},
		"OpenAPI":                           {Offer{JSONOnly: true}, []string{"application/com.github.proto-openapi.spec.v3@v1.0+protobuf,application/yaml,application/json"}, object},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Negotiate(asked(c.accept...), c.offer)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestCREATE_05_NotAcceptable(t *testing.T) {
	list := Offer{Table: true, Metadata: true, List: true}
	for name, c := range map[string]struct {
		offer  Offer
		accept string
		lists  string
	}{
		"image":                       {everything, "image/png", "application/json, application/yaml"},
		"PATH-19 protobuf alone":      {everything, "application/vnd.kubernetes.protobuf", "application/json, application/yaml"},
		"CBOR alone":                  {everything, "application/cbor", "application/json, application/yaml"},
		"TABLE-06 without fallback":   {Offer{}, table, "application/json, application/yaml"},
		"TABLE-10 list of one object": {everything, partials, "application/json, application/yaml"},
		"TABLE-10 object of a list":   {list, partial, "application/json, application/yaml"},
		"TABLE-10 list in a watch":    {Offer{Metadata: true, List: true, Watch: true}, partials, "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"},
		"never anything":              {everything, "*/*;q=0", "application/json, application/yaml"},
		"everything excluded":         {everything, "*/*, application/*;q=0", "application/json, application/yaml"},
		"YAML stream":                 {Offer{Watch: true}, "application/yaml", "application/json;stream=watch"},
		"table in a YAML stream":      {Offer{Table: true, Watch: true}, strings.Replace(table, "json", "yaml", 1), "application/json;stream=watch"},
		"table in protobuf, streamed": {Offer{Table: true, Protobuf: true, Watch: true}, strings.Replace(table, "json", "vnd.kubernetes.protobuf", 1), "application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		"a version of no form":        {everything, "application/json;g=meta.k8s.io;v=v1", "application/json, application/yaml"},
		"another stream":              {Offer{Watch: true}, "application/json;stream=x", "application/json, application/yaml"},
		"table of another domain":     {everything, strings.ReplaceAll(table, "k8s.io", "example.org"), "application/json, application/yaml"},
		"OpenAPI as protobuf":         {Offer{JSONOnly: true}, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/json"},
		"nothing but rubbish":         {everything, "rubbish", "application/json, application/yaml"},
		"a parameter twice":           {everything, "application/json;as=Table;as=Table;g=meta.k8s.io;v=v1", "application/json, application/yaml"},
		"an open quote":               {everything, `application/json;x="`, "application/json, application/yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Negotiate(asked(c.accept), c.offer)
			require.True(t, status.IsNotAcceptable(err), "%v", err)
			require.EqualError(t, err, "only the following media types are accepted: "+c.lists)
		})
	}
}

func TestQUERY_21_Pretty(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		userAgent, accept string
		query             *bool
		offer             Offer
		want              bool
	}{
		"a program":                  {userAgent: "kubectl/v1.37.2", want: false},
		"no user agent":              {want: false},
		"curl":                       {userAgent: "curl/8.5.0", want: true},
		"wget":                       {userAgent: "Wget/1.21", want: true},
		"a library":                  {userAgent: "libcurl", want: false},
		"a browser":                  {userAgent: "Mozilla/5.0 (X11; Linux)", want: true},
		"curl refuses":               {userAgent: "curl/8.5.0", query: &no, want: false},
		"a program asks":             {userAgent: "kubectl", query: &yes, want: true},
		"in the media type":          {accept: "application/json;pretty=1", want: true},
		"query beats media type":     {accept: "application/json;pretty=1", query: &no, want: false},
		"YAML is what it is":         {accept: "application/yaml", query: &yes, want: false},
		"a stream consists of lines": {userAgent: "curl/8.5.0", offer: Offer{Watch: true}, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			r := asked()
			r.Header.Set("User-Agent", c.userAgent)
			if c.accept != "" {
				r.Header.Set("Accept", c.accept)
			}
			x := exchanged(r.Context())
			x.Info.Store(&request.Info{Query: request.Query{Pretty: c.query}})
			r = r.WithContext(x)
			got, err := Negotiate(r, c.offer)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Pretty)
		})
	}
}

// A list of any length takes no more than the elements that are read, and what follows them is ignored.
func TestS16_AcceptOfManyTypes(t *testing.T) {
	allocated := func(elements int) uint64 {
		r := asked(strings.Repeat(`a/b;x="y";q=0.5,`, elements) + "application/yaml")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Negotiate(r, everything)
		runtime.ReadMemStats(&after)
		if elements < maxRanges {
			require.NoError(t, err)
			require.Equal(t, YAML, got.MediaType)
		} else {
			require.Error(t, err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	require.LessOrEqual(t, allocated(100_000), 2*allocated(maxRanges-1)+64<<10)
}

func TestResultNames(t *testing.T) {
	require.Equal(t, "application/yaml", Result{MediaType: YAML}.ContentType())
	require.Empty(t, Result{}.APIVersion())
	require.Equal(t, "meta.k8s.io/v1beta1", Result{As: Table, Group: "meta.k8s.io", Version: V1Beta1}.APIVersion())
	require.Equal(t, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
		Result{As: APIGroupDiscoveryList, Group: "apidiscovery.k8s.io", Version: V2}.ContentType())
	for as, want := range map[As]string{Object: "Object", Table: "Table", PartialObjectMetadata: "PartialObjectMetadata", PartialObjectMetadataList: "PartialObjectMetadataList"} {
		require.Equal(t, want, as.String())
	}
}

func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "*/*", table + "," + oldTable, `a/b;q="0.5";x="\"",c/d;q=1.0`, "application/json;q=0,*/*", "application/*;q=.5", ";", `"`, `\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		got, err := Negotiate(asked(accept), everything)
		if err != nil {
			require.True(t, status.IsNotAcceptable(err))
			return
		}
		// A client that asks for the negotiated form by name gets the same form again.
		again := got.MediaType.String()
		if got.As != Object {
			again += ";" + url.Values{"as": {got.As.String()}}.Encode() + ";g=" + got.Group + ";v=" + string(got.Version)
		}
		repeated, err := Negotiate(asked(again), everything)
		require.NoError(t, err)
		got.Pretty = false
		require.Equal(t, got, repeated)
	})
}
