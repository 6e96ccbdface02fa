package openapi

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Swagger describes all kinds of a server in one OpenAPI v2 document. Older and simpler clients
// read it; client-go and everything built on it use it to learn how fields merge.
//
// OpenAPI v2 is less expressive than v3. The document omits nullability, deprecation and conditions
// below allOf, anyOf, oneOf and not. Structure, bounds and extensions are the same as in v3.
//
// Source: OAPI-01.
type Swagger struct {
	Title     string     // defaults to "kindwright"
	Version   string     // of the server; defaults to "unversioned"
	BasePath  string     // what all paths are below, such as "/shop"; empty at the root
	Documents []Document // of one group version each

	// BearerToken means that clients may send a bearer token. Clients that are generated from the document
	// send one only if it says so.
	BearerToken bool

	// Others are parts of the documents of other servers that this one answers for. A definition
	// with the name of another one and other contents gets a new name, such as Port_v2.
	Others []*SwaggerPart
}

// JSON returns the document as JSON. It is deterministic: equal documents give equal bytes.
func (s Swagger) JSON() ([]byte, error) {
	d, err := s.draft(swaggerForm{})
	if err != nil {
		return nil, err
	}
	others, err := s.others()
	if err != nil {
		return nil, err
	}
	title, version := s.info()
	out := append(d.buffer(), '{')
	if s.BasePath != "" {
		out = append(json.AppendString(append(out, `"basePath":`...), s.BasePath), ',')
	}
	out = append(out, `"definitions":{`...)
	if out, err = appendTrees(d.appendDefinitions(out), others.definitions); err != nil {
		return nil, err
	}
	out = withoutComma(out)
	out = json.AppendString(append(out, `},"info":{"title":`...), title)
	out = json.AppendString(append(out, `,"version":`...), version)
	out = append(out, `},"paths":{`...)
	if out, err = d.appendAllPaths(out); err != nil {
		return nil, err
	}
	if out, err = appendTrees(out, others.paths); err != nil {
		return nil, err
	}
	out = append(withoutComma(out), `},`...)
	if s.BearerToken {
		out = append(out, `"security":[{"`+bearerToken+`":[]}],"securityDefinitions":`+bearerTokenScheme+`,`...)
	}
	return append(out, `"swagger":"2.0"}`...), nil
}

// Protobuf returns the document as the gnostic message openapi.v2.Document. client-go only requests
// this form.
func (s Swagger) Protobuf() ([]byte, error) {
	d, err := s.draft(gnosticForm{})
	if err != nil {
		return nil, err
	}
	others, err := s.others()
	if err != nil {
		return nil, err
	}
	title, version := s.info()
	m := message(d.buffer())
	m.text(1, "2.0")
	m.nested(2, func() {
		m.text(1, title)
		m.text(2, version)
	})
	m.text(4, s.BasePath)
	m.begin(8, d.pathsSize)
	if m, err = d.appendAllPaths(m); err != nil {
		return nil, err
	}
	m.begin(9, d.definitionsSize)
	m = d.appendDefinitions(m)
	m.others(others)
	if s.BearerToken {
		m.bearerToken()
	}
	return m, nil
}

func (s Swagger) info() (title, version string) {
	return cmp.Or(s.Title, "kindwright"), cmp.Or(s.Version, "unversioned")
}

// draft is a document whose schemas are encoded and whose sizes are known.
type draft struct {
	*publisher
	documents                  []Document // in the order of their paths
	definitionsSize, pathsSize int
}

// draft publishes all documents once, which encodes the schemas and counts the bytes of the paths.
// The paths are most of the result. They are not kept but encoded again into the result, which then
// needs no more memory than it is long.
func (s Swagger) draft(f form) (*draft, error) {
	d := &draft{publisher: newPublisher(f, sharedOnce()), documents: slices.Clone(s.Documents)}
	d.deleteOptions(s.Documents...)
	d.noFieldValidation = !s.definesKinds()
	slices.SortFunc(d.documents, func(a, b Document) int { return strings.Compare(a.path(), b.path()) })
	d.heads = d.headings(d.documents)
	var scratch []byte
	for _, doc := range programsFirst(s.Documents) {
		if err := d.publish(doc); err != nil {
			return nil, err
		}
		scratch = d.appendPaths(scratch[:0])
		d.pathsSize += len(scratch)
	}
	for name, definition := range d.definitions {
		scratch = f.definition(scratch[:0], name, definition.encoded)
		d.definitionsSize += len(scratch)
	}
	return d, nil
}

// programsFirst returns documents such that those with kinds of the program precede those that clients
// have defined alone: the latter do not take the names of the former.
func programsFirst(all []Document) []Document {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Document) int {
		switch x, y := a.ofProgram(), b.ofProgram(); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	return out
}

// ofProgram reports whether the document has kinds that no client has defined.
func (d Document) ofProgram() bool {
	return slices.ContainsFunc(d.Kinds, func(k KindDoc) bool { return !isDefined(k) })
}

// buffer returns an empty buffer that is large enough for the whole document.
func (d *draft) buffer() []byte { return make([]byte, 0, d.definitionsSize+d.pathsSize+1<<10) }

// appendAllPaths appends the paths of all documents. Those of a document begin with its own path, so
// they are sorted when the documents are.
func (d *draft) appendAllPaths(dst []byte) ([]byte, error) {
	for _, doc := range d.documents {
		if err := d.publish(doc); err != nil {
			return nil, err
		}
		dst = d.appendPaths(dst)
	}
	return dst, nil
}

// definesKinds reports whether the server serves CustomResourceDefinition. If it does not, patches
// do not have the parameter fieldValidation. For kinds with a patch operation, kubectl reads v3
// instead. For a kind without one, such as a review, kubectl looks at the patch of namespaces in this
// document. If that patch has the parameter, kubectl lists the custom resource definitions and fails
// if it cannot. Without the parameter, kubectl validates the object itself against the schema.
func (s Swagger) definesKinds() bool {
	return slices.ContainsFunc(s.Documents, func(d Document) bool {
		return slices.ContainsFunc(d.Kinds, func(k KindDoc) bool { return k.Kind == "CustomResourceDefinition" })
	})
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// swaggerForm writes OpenAPI v2 as JSON.
type swaggerForm struct{}

func (swaggerForm) schema(p *publisher, u usage) []byte {
	w := schemaWriter{publisher: p, swagger: true}
	w.usage(u)
	return w.dst
}

func (swaggerForm) parameter(tree map[string]any) ([]byte, error) {
	return json.AppendTree(nil, swaggerParameter(tree))
}

func (swaggerForm) definition(dst []byte, name string, encoded []byte) []byte {
	return appendMember(dst, name, encoded)
}

func (f swaggerForm) path(dst []byte, name string, item *pathItem) []byte {
	return appendPath(dst, name, item, f.operation)
}

// operation appends an operation. In v2 the body is a parameter, and media types belong to the
// operation instead of to each body.
func (swaggerForm) operation(dst []byte, o *operation) []byte {
	dst = append(dst, '{')
	if o.body != "" {
		dst = append(appendTexts(append(dst, `"consumes":`...), o.bodyTypes()), ',')
	}
	dst = appendOperationNames(dst, o)
	if len(o.encoded) > 0 || o.body != "" {
		dst = append(appendRaw(append(dst, `,"parameters":[`...), o.encoded), ',')
		if o.body != "" {
			dst = append(dst, `{"in":"body","name":"body",`...)
			if !o.optionalBody {
				dst = append(dst, `"required":true,`...)
			}
			dst = append(appendReference(append(dst, `"schema":`...), swaggerReferences, o.body), "},"...)
		}
		dst = append(withoutComma(dst), ']')
	}
	dst = append(appendTexts(append(dst, `,"produces":`...), o.answerTypes()), `,"responses":{`...)
	for _, code := range o.codes {
		dst = append(dst, '"')
		dst = append(append(append(dst, code...), `":{"description":"`...), codeTexts[code]...)
		dst = append(o.appendAnswer(append(dst, `","schema":`...), swaggerReferences), "},"...)
	}
	dst = append(dst, `"401":{"description":"Unauthorized"}}`...)
	return appendOperationEnd(dst, o)
}

// swaggerParameter moves the schema of a parameter into the parameter itself, where v2 expects it.
func swaggerParameter(tree map[string]any) map[string]any {
	parameter := maps.Clone(tree)
	schema := object(parameter["schema"])
	delete(parameter, "schema")
	maps.Copy(parameter, schema)
	parameter["uniqueItems"] = true
	return parameter
}

// swaggerOnly is what OpenAPI v2 says differently of a schema.
type swaggerOnly struct{ reference, typ, format string }

// swaggerOnly returns what v2 says differently. It also publishes the schemas to which v3 refers in
// branches that v2 leaves out.
func (p *publisher) swaggerOnly(u usage) (out swaggerOnly) {
	out.reference = u.reference
	s := u.schema
	if s == nil || s.fromDocument {
		return out
	}
	v3 := schemaWriter{publisher: p}
	if s.Not != nil {
		v3.usage(p.property(s.Not))
	}
	if len(s.AnyOf) > 0 {
		v3.list(s.AnyOf)
	}
	oneOf := s.union("oneOf")
	if len(s.OneOf) > 0 {
		start := len(v3.dst)
		v3.list(s.OneOf)
		oneOf = strings.TrimSuffix(string(v3.dst[start:]), ",")
	}
	for _, branch := range s.AllOf {
		of := p.property(branch)
		if of.schema != nil {
			v3.usage(of)
		} else if len(s.AllOf) == 1 && out.reference == "" && !s.clashes() {
			out.reference = of.reference
		}
	}
	switch {
	case s.publishedType() != "":
	case s.IntOrString:
		out.typ, out.format = string(String), "int-or-string"
	case out.reference == "" && oneOf == stringOrNumber && !s.clashes():
		out.typ = string(String)
	}
	return out
}
