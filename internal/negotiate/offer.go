package negotiate

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// MediaType is the encoding of a document.
type MediaType uint8

// The supported media types. JSON is the default.
const (
	JSON MediaType = iota
	YAML
	Protobuf // only for kinds whose Go type has protobuf tags; client-go's typed clients prefer it
	Swagger  // OpenAPI v2 as protobuf (OAPI-01); client-go accepts nothing else
	CBOR     // only where the server has it switched on; see request.Exchange
)

// The names of Swagger. Clients send swaggerAsked, which is not a well-formed media type; responses
// contain swaggerSent.
const (
	swaggerSent  = "com.github.proto-openapi.spec.v2.v1.0+protobuf"
	swaggerAsked = "com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// String returns the media type as it appears in headers.
func (m MediaType) String() string {
	switch m {
	case YAML:
		return "application/yaml"
	case Protobuf:
		return "application/" + kubernetesProtobuf
	case Swagger:
		return "application/" + swaggerSent
	case CBOR:
		return "application/cbor"
	}
	return "application/json"
}

// kubernetesProtobuf is the subtype that client-go knows. Every server accepts it, whatever its
// group domain.
const kubernetesProtobuf = "vnd.kubernetes.protobuf"

// IsProtobuf reports whether a media type, in lower case and without parameters, means protobuf on
// a server with a group domain. This is application/vnd.kubernetes.protobuf and, for a server with
// its own domain, also application/vnd.{domain}.protobuf.
//
// Source: PATH-19.
func IsProtobuf(mediaType, groupDomain string) bool {
	subtype, ok := strings.CutPrefix(mediaType, "application/")
	if !ok {
		return false
	}
	_, ok = protobufName(subtype, groupDomain)
	return ok
}

// protobufName reports whether a subtype means protobuf, as IsProtobuf does. name is the media type
// for the response, or "" for the usual name.
func protobufName(subtype, groupDomain string) (name string, ok bool) {
	if strings.EqualFold(subtype, kubernetesProtobuf) {
		return "", true
	}
	own := "vnd." + groupDomain + ".protobuf"
	if groupDomain == "" || groupDomain == request.DefaultGroupDomain || !strings.EqualFold(subtype, own) {
		return "", false
	}
	return "application/" + own, true
}

// As is the form of a response: the parameter "as" of a media type.
type As uint8

// The forms of a response.
const (
	// Object is the resource itself, or a list of it.
	Object As = iota
	// Table is a Table with one or more rows (TABLE-01).
	Table
	// PartialObjectMetadata is the metadata of one object (TABLE-10).
	PartialObjectMetadata
	// PartialObjectMetadataList is the metadata of the objects of a list (TABLE-10).
	PartialObjectMetadataList
	// APIGroupDiscoveryList is aggregated discovery (DISC-07).
	APIGroupDiscoveryList
)

// String returns the kind of the document.
func (a As) String() string {
	switch a {
	case Table:
		return "Table"
	case PartialObjectMetadata:
		return "PartialObjectMetadata"
	case PartialObjectMetadataList:
		return "PartialObjectMetadataList"
	case APIGroupDiscoveryList:
		return "APIGroupDiscoveryList"
	}
	return "Object"
}

// Version is the version of a form within its API group: V1 or V1Beta1 for tables and metadata
// (TABLE-11), V2 for discovery, and empty for objects.
type Version string

// The versions of forms.
const (
	V1      Version = "v1"
	V1Beta1 Version = "v1beta1"
	V2      Version = "v2"
)

// Offer describes the responses that a handler can produce. The zero value offers objects as JSON
// and YAML.
type Offer struct {
	// GroupDomain is the suffix of the groups in the parameter "g": meta.{domain} and
	// apidiscovery.{domain}. Empty means [request.DefaultGroupDomain].
	GroupDomain string

	// Table offers a Table. It is false for kinds that opt out of tables (TABLE-06).
	Table bool

	// Metadata offers PartialObjectMetadata, or PartialObjectMetadataList if List is set.
	Metadata bool

	// List means that the response is a collection.
	List bool

	// Watch means that the response is a stream of events. Streams cannot be YAML. Each event
	// contains a single object, so List has no effect.
	Watch bool

	// Discovery offers APIGroupDiscoveryList in version v2.
	Discovery bool

	// Protobuf offers objects as protobuf. Metadata can be protobuf for every kind that offers
	// Metadata. Tables cannot be protobuf.
	Protobuf bool

	// CBORLast prefers every other type that the client accepts to CBOR. Clients ask for CBOR in all
	// requests and read discovery documents as JSON, since kube-apiserver has them in no other form.
	CBORLast bool

	// JSONOnly excludes YAML, protobuf and CBOR.
	JSONOnly bool

	// Swagger offers the document as OpenAPI v2 in protobuf.
	Swagger bool

	anyForm bool // the response is a Status, whatever form was requested
	cbor    bool // the server writes CBOR
}

// Result is the negotiated form of a response.
type Result struct {
	MediaType MediaType
	As        As

	// Group and Version identify the form, such as meta.k8s.io and v1. They are empty for objects.
	Group   string
	Version Version

	// Pretty requests indented JSON. It is false for YAML, which is always indented, and for
	// streams, in which each frame is a line.
	Pretty bool

	// Unmanaged requests objects without metadata.managedFields. Clients request it with the
	// parameter "managedfields=omit", which servers without support for it ignore.
	Unmanaged bool

	// Stream means that the response is a stream of events.
	Stream bool

	// Name is the media type as the client wrote it, if it is not the usual name.
	Name string
}

// APIVersion returns the apiVersion of documents in this form. It is "" for objects, which have
// their own.
func (r Result) APIVersion() string {
	if r.Group == "" {
		return ""
	}
	return r.Group + "/" + string(r.Version)
}

// ContentType returns the value of the Content-Type header. Discovery clients need the parameters
// to identify the form. All other documents contain their kind.
func (r Result) ContentType() string {
	if r.As == APIGroupDiscoveryList {
		return r.MediaType.String() + ";g=" + r.Group + ";v=" + string(r.Version) + ";as=" + r.As.String()
	}
	if r.MediaType == CBOR && r.Stream {
		return cborSequence
	}
	name := cmp.Or(r.Name, r.MediaType.String())
	if r.MediaType == Protobuf && r.Stream {
		return name + ";stream=watch" // WATCH-35
	}
	return name
}

// cborSequence is the media type of a stream of CBOR documents. Clients ask for it, or for CBOR.
const cborSequence = "application/cbor-seq"

// writesCBOR reports whether the server of a request reads and writes CBOR.
func writesCBOR(r *http.Request) bool {
	x := request.ExchangeFrom(r.Context())
	return x != nil && x.CBOR
}

// Negotiate chooses the form of the response to r from those that o offers. The entry with the
// greatest weight wins. Among equal weights, an entry that names a type is preferred to a wildcard,
// and then the first entry wins. The default is JSON. If nothing is acceptable, the error is a 406
// *status.Error that lists the available types.
//
// The query parameter pretty decides whether JSON is indented. If it is absent, the pretty
// parameter of the chosen entry decides, and then whether the client appears to be interactive.
//
// Source: CREATE-05, QUERY-21.
func Negotiate(r *http.Request, o Offer) (Result, error) {
	cbor := !o.JSONOnly && writesCBOR(r)
	o.cbor = cbor && !o.CBORLast
	chosen, ok := o.choose(r.Header["Accept"])
	if !ok && o.cbor != cbor {
		o.cbor = cbor
		chosen, ok = o.choose(r.Header["Accept"])
	}
	if !ok {
		return Result{}, o.notAcceptable(r)
	}
	chosen.Stream = o.Watch
	chosen.Pretty = chosen.MediaType == JSON && !o.Watch && pretty(r, chosen.Pretty)
	return chosen, nil
}

// Accepts reports whether a client accepts a media type other than those above, such as text/plain.
func Accepts(r *http.Request, mediaType string) bool {
	fields := r.Header["Accept"]
	if !slices.ContainsFunc(fields, func(field string) bool { return strings.Trim(field, ", \t") != "" }) {
		return true
	}
	full, _ := ContentType(mediaType)
	typ, subtype, _ := strings.Cut(full, "/")
	taken, rank := false, -1
	for m := range ranges(fields) {
		if s := m.specificity(); s > rank && (m.is(typ, subtype) || m.is(typ, "*") || m.is("*", "*")) {
			taken, rank = m.weight > 0, s
		}
	}
	return taken
}

// choose scans the entries twice. A specific entry with weight 0 may exclude a type after a
// wildcard that has already matched it.
func (o *Offer) choose(accept []string) (best Result, ok bool) {
	if !slices.ContainsFunc(accept, func(field string) bool { return strings.Trim(field, ", \t") != "" }) {
		return Result{}, true
	}
	excluded := exclusions(accept)
	bestRank := -1
	for m := range ranges(accept) {
		rank := m.weight*4 + m.specificity()
		if m.weight == 0 || rank <= bestRank {
			continue
		}
		if result, acceptable := o.match(&m, excluded); acceptable {
			best, bestRank = result, rank
		}
	}
	return best, bestRank >= 0
}

// exclusions returns the media types that the client excludes with weight 0.
func exclusions(accept []string) (excluded [2]bool) {
	for m := range ranges(accept) {
		if m.weight > 0 || m.as != "" {
			continue
		}
		excluded[JSON] = excluded[JSON] || m.is("application", "json") || m.is("application", "*")
		excluded[YAML] = excluded[YAML] || m.is("application", "yaml") || m.is("application", "*")
	}
	return excluded
}

// match returns the form that o offers for the entry m.
func (o *Offer) match(m *mediaRange, excluded [2]bool) (Result, bool) {
	mediaType, ok := o.mediaType(m, excluded)
	if !ok || m.stream != "" && m.stream != "watch" || m.charset != "" && !strings.EqualFold(m.charset, "utf-8") {
		return Result{}, false
	}
	form, ok := o.form(m)
	form.MediaType, form.Pretty, form.Unmanaged = mediaType, m.pretty, m.unmanaged
	if mediaType == Protobuf {
		if form.As == Table || form.As == Object && !o.Protobuf || o.anyForm && m.as != "" {
			return Result{}, false
		}
		form.Name, _ = protobufName(m.subtype, o.GroupDomain)
	}
	return form, ok
}

func (o *Offer) mediaType(m *mediaRange, excluded [2]bool) (MediaType, bool) {
	yaml := !o.Watch && !o.JSONOnly
	switch {
	case m.is("application", "json"):
		return JSON, true
	case m.is("application", "yaml"):
		return YAML, yaml
	case strings.EqualFold(m.typ, "application") && o.callsProtobuf(m.subtype):
		return Protobuf, (o.Protobuf || o.Metadata) && !o.JSONOnly
	case m.is("application", "cbor") || o.Watch && m.is("application", "cbor-seq"):
		return CBOR, o.cbor
	case o.Swagger && (m.is("application", swaggerAsked) || m.is("application", swaggerSent)):
		return Swagger, true
	case m.subtype == "*" && (m.typ == "*" || strings.EqualFold(m.typ, "application")):
		if excluded[JSON] {
			return YAML, yaml && !excluded[YAML]
		}
		return JSON, true
	}
	return 0, false
}

func (o *Offer) callsProtobuf(subtype string) bool {
	_, ok := protobufName(subtype, o.GroupDomain)
	return ok
}

// form interprets the parameters as, g and v.
func (o *Offer) form(m *mediaRange) (Result, bool) {
	if m.as == "" && m.group == "" && m.version == "" {
		return Result{}, true
	}
	if o.anyForm {
		return Result{}, false
	}
	domain := cmp.Or(o.GroupDomain, request.DefaultGroupDomain)
	version := Version(m.version)
	if m.as == APIGroupDiscoveryList.String() {
		form := Result{As: APIGroupDiscoveryList, Group: "apidiscovery." + domain, Version: V2}
		return form, o.Discovery && m.group == form.Group && version == V2
	}
	form := Result{Group: "meta." + domain, Version: version}
	if m.group != form.Group || version != V1 && version != V1Beta1 {
		return Result{}, false
	}
	list := o.List && !o.Watch
	switch m.as {
	case Table.String():
		form.As = Table
		return form, o.Table
	case PartialObjectMetadata.String():
		form.As = PartialObjectMetadata
		return form, o.Metadata && !list
	case PartialObjectMetadataList.String():
		form.As = PartialObjectMetadataList
		return form, o.Metadata && list
	}
	return Result{}, false
}

// notAcceptable returns the 406 of a request that accepts nothing that o offers. A watch lists the
// types of streams only to a client that would have been given one object, as kube-apiserver does.
func (o *Offer) notAcceptable(r *http.Request) error {
	objects := *o
	objects.Watch = false
	if _, ok := objects.choose(r.Header["Accept"]); !ok {
		return status.NotAcceptable(objects.mediaTypes())
	}
	return status.NotAcceptable(o.mediaTypes())
}

// mediaTypes lists the types that the client could have requested.
func (o *Offer) mediaTypes() []string {
	types := []string{JSON.String()}
	switch {
	case o.Watch:
		types = []string{"application/json;stream=watch"}
	case !o.JSONOnly:
		types = append(types, YAML.String())
	}
	if o.cbor {
		types = append(types, Result{MediaType: CBOR, Stream: o.Watch}.ContentType())
	}
	switch {
	case o.JSONOnly && !o.Swagger:
	case o.Watch && (o.Protobuf || o.Metadata):
		types = append(types, Result{MediaType: Protobuf, Stream: true}.ContentType())
	case o.Protobuf:
		types = append(types, Protobuf.String())
	case o.Swagger:
		types = append(types, Swagger.String())
	}
	return types
}

// pretty decides whether to indent (QUERY-21). asked is the pretty parameter of the Accept entry.
// Without any, answers to browsers and to command-line tools that people read are indented.
func pretty(r *http.Request, asked bool) bool {
	var parameter *bool
	if x := request.ExchangeFrom(r.Context()); x != nil && x.Info.Load() != nil {
		parameter = x.Info.Load().Query.Pretty
	} else {
		parameter = request.PrettyParameter(r.URL.RawQuery) // nothing else of the request did parse
	}
	if parameter != nil {
		return *parameter
	}
	agent := r.UserAgent()
	return asked || strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}
