package negotiate

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// MediaType is how a document is written.
type MediaType uint8

// The media types we write and read. JSON is what a client gets that asks for nothing in particular.
const (
	JSON MediaType = iota
	YAML
	Protobuf // of kinds whose Go type says how; client-go's typed clients ask for it first
	Swagger  // OpenAPI v2 as protobuf (OAPI-01); client-go asks for nothing else
)

// The names of Swagger: the one in answers, and the one that clients ask for, which is no well-formed media type.
const (
	swaggerSent  = "com.github.proto-openapi.spec.v2.v1.0+protobuf"
	swaggerAsked = "com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// String returns the media type as headers name it.
func (m MediaType) String() string {
	switch m {
	case YAML:
		return "application/yaml"
	case Protobuf:
		return "application/" + kubernetesProtobuf
	case Swagger:
		return "application/" + swaggerSent
	}
	return "application/json"
}

// kubernetesProtobuf is the subtype that client-go knows. Every server understands it, whatever its group domain.
const kubernetesProtobuf = "vnd.kubernetes.protobuf"

// IsProtobuf tells whether a media type, in lower case and without parameters, is one that a server of a group domain
// calls protobuf: application/vnd.kubernetes.protobuf, and with a domain of its own application/vnd.{domain}.protobuf as
// well (PATH-19).
func IsProtobuf(mediaType, groupDomain string) bool {
	subtype, ok := strings.CutPrefix(mediaType, "application/")
	if !ok {
		return false
	}
	_, ok = protobufName(subtype, groupDomain)
	return ok
}

// protobufName tells whether a subtype is one of those of IsProtobuf, and how an answer names it: "" for the usual name.
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

// As is the form of an answer: what the parameter "as" of a media type asks for.
type As uint8

// The forms of an answer.
const (
	// Object is the resource itself, or a list of it.
	Object As = iota
	// Table is a Table of one row or many (TABLE-01).
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

// Version is the version of the form in its own group: V1 or V1Beta1 for tables and metadata (TABLE-11), V2 for
// discovery, empty for objects.
type Version string

// The versions of forms.
const (
	V1      Version = "v1"
	V1Beta1 Version = "v1beta1"
	V2      Version = "v2"
)

// Offer is what a handler can answer a request with. The zero value offers objects as JSON and YAML.
type Offer struct {
	// GroupDomain ends the groups of the parameter "g": meta.{domain} and apidiscovery.{domain}. Empty means
	// [request.DefaultGroupDomain].
	GroupDomain string

	// Table offers a Table. A kind that opts out of tables leaves it false (TABLE-06).
	Table bool

	// Metadata offers PartialObjectMetadata, or with List PartialObjectMetadataList.
	Metadata bool

	// List says that the answer is a collection.
	List bool

	// Watch says that the answer is a stream of events. Streams are JSON only; each object in one is a single object,
	// so that List has no effect.
	Watch bool

	// Discovery offers APIGroupDiscoveryList in version v2.
	Discovery bool

	// Protobuf offers objects as protobuf. Metadata alone are offered so for every kind that offers Metadata; there are no
	// tables in protobuf.
	Protobuf bool

	// JSONOnly takes YAML off the offer.
	JSONOnly bool

	// Swagger offers the document as OpenAPI v2 in protobuf.
	Swagger bool

	anyForm bool // whatever is asked for, the answer is a Status: an error
}

// Result is the form that was agreed on.
type Result struct {
	MediaType MediaType
	As        As

	// Group and Version are those of the form, for instance meta.k8s.io and v1; empty for objects.
	Group   string
	Version Version

	// Pretty asks for indented JSON. It is false for YAML, which always is, and for streams, whose frames are lines.
	Pretty bool

	// Unmanaged asks for objects without metadata.managedFields: the parameter "managedfields=omit", which servers that do
	// not know it ignore.
	Unmanaged bool

	// Stream says that the answer is a stream of events.
	Stream bool

	// Name is the media type by another name than its usual one, as the client asked for it; empty for the usual one.
	Name string
}

// APIVersion returns the apiVersion of a document of this form, "" for objects, which have their own.
func (r Result) APIVersion() string {
	if r.Group == "" {
		return ""
	}
	return r.Group + "/" + string(r.Version)
}

// ContentType returns the value of the Content-Type header. Clients of discovery tell its forms apart by the parameters;
// other documents say themselves what they are.
func (r Result) ContentType() string {
	if r.As == APIGroupDiscoveryList {
		return r.MediaType.String() + ";g=" + r.Group + ";v=" + string(r.Version) + ";as=" + r.As.String()
	}
	name := cmp.Or(r.Name, r.MediaType.String())
	if r.MediaType == Protobuf && r.Stream {
		return name + ";stream=watch" // WATCH-35
	}
	return name
}

// Negotiate chooses the form of the answer to r among what o offers. The entry with the greatest weight wins, among equals
// the one that names a type rather than a wildcard, then the first. A request that says nothing gets JSON. When nothing on
// offer is acceptable the error is a 406 *status.Error that lists what is (CREATE-05).
//
// Whether JSON is indented is decided by the parameter pretty of the query, else by that of the chosen entry, else by
// whether a person seems to be looking (QUERY-21).
func Negotiate(r *http.Request, o Offer) (Result, error) {
	chosen, ok := o.choose(r.Header["Accept"])
	if !ok {
		return Result{}, status.NotAcceptable(o.mediaTypes())
	}
	chosen.Stream = o.Watch
	chosen.Pretty = chosen.MediaType == JSON && !o.Watch && pretty(r, chosen.Pretty)
	return chosen, nil
}

// Accepts tells whether a client takes an answer of a media type that is none of those above, such as text/plain.
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

// choose walks over the list twice: what a more specific entry of weight 0 excludes may stand behind the wildcard that
// would have let it in.
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

// exclusions returns the media types that the list names with weight 0.
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

// match tells what o gives to a client that asks for m.
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
		return Protobuf, o.Protobuf || o.Metadata
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

// form reads the parameters as, g and v.
func (o *Offer) form(m *mediaRange) (Result, bool) {
	if m.as == "" || o.anyForm {
		return Result{}, true
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

// mediaTypes lists what the client could have asked for.
func (o *Offer) mediaTypes() []string {
	types := []string{JSON.String()}
	switch {
	case o.Watch:
		types = []string{"application/json;stream=watch", JSON.String()}
	case !o.JSONOnly:
		types = append(types, YAML.String())
	}
	switch {
	case o.Protobuf && o.Watch:
		types = append(types, Result{MediaType: Protobuf, Stream: true}.ContentType())
	case o.Protobuf:
		types = append(types, Protobuf.String())
	case o.Swagger:
		types = append(types, Swagger.String())
	}
	return types
}

// pretty decides about indentation for a client whose Accept entry asked for it or not.
func pretty(r *http.Request, asked bool) bool {
	info := request.From(r.Context())
	if info == nil {
		info = &request.Info{} // an answer to a request that did not parse, save for this
		info.Query.Pretty = request.PrettyParameter(r.URL.RawQuery)
	}
	return asked && info.Query.Pretty == nil || info.Pretty(r.UserAgent())
}
