package match

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Input returns what expressions see of a request when its objects are shown in a form. ask answers
// their questions to the authorizer.
// Source: POL-04, WHK-05, WHK-10.
func Input(ctx context.Context, r *admission.Request, as admission.Form, ask cel.AskFunc) (cel.AdmissionInput, error) {
	var described map[string]any // when the first expression asks
	in := cel.AdmissionInput{
		Object: r.Object, OldObject: r.OldObject,
		Request: func() map[string]any {
			if described == nil {
				described = Describe(r, as)
			}
			return described
		},
		Ask: ask, About: aboutObject(r),
	}
	if as.Kind == r.Kind {
		return in, nil
	}
	for _, object := range []*map[string]any{&in.Object, &in.OldObject} {
		if *object == nil {
			continue
		}
		var err error
		if *object, err = r.Convert(ctx, *object, as.Kind); err != nil {
			return in, err
		}
	}
	return in, nil
}

// OtherPlurals returns the plural names of the other forms of the objects of a request.
func OtherPlurals(r *admission.Request) (names []string) {
	if r.Server == nil {
		return nil
	}
	for _, form := range r.Server.Forms(r.Resource) {
		if name := form.Resource.Resource; name != r.Resource.Resource && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// answer is a decision of the authorizer.
type answer struct {
	decision authz.Decision
	reason   string
	err      error
}

// Ask returns a function that asks the server's authorizer and remembers its answers for the request:
// the policies of one write often ask the same. It is nil without a server.
// Source: POL-04.
func Ask(ctx context.Context, r *admission.Request) cel.AskFunc {
	if r.Server == nil {
		return nil
	}
	known := map[string]answer{}
	return func(a authz.Attributes) (authz.Decision, string, error) {
		key := keyOf(&a)
		have, ok := known[key]
		if !ok {
			have.decision, have.reason, have.err = r.Server.Authorizer().Authorize(ctx, a)
			known[key] = have
		}
		return have.decision, have.reason, have.err
	}
}

// keyOf tells questions apart. Each part is quoted: expressions ask with texts of clients, which could
// otherwise make one question look like another.
func keyOf(a *authz.Attributes) string {
	var b strings.Builder
	for _, text := range []string{
		a.User.Name, a.User.UID, a.Verb, a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name, a.Path,
		a.Fields.String(), a.Labels.String(), strings.Join(a.User.Groups, "\x00"), strconv.Itoa(len(a.User.Extra)),
	} {
		b.WriteString(strconv.Quote(text))
	}
	return b.String()
}

// aboutObject is the question about the object of a request, as authorizer.requestResource asks it.
func aboutObject(r *admission.Request) authz.Attributes {
	return authz.Attributes{
		User: r.User, ResourceRequest: true, Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource,
		Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
}

// Describe returns a request as the variable request shows it, and as webhooks are told of it, without
// its objects, in the form in which they are shown.
// Source: POL-04, ADM-04 to ADM-11.
func Describe(r *admission.Request, as admission.Form) map[string]any {
	kind := func(k meta.GroupVersionKind) any {
		return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	}
	resource := func(v meta.GroupVersionResource) any {
		return map[string]any{"group": v.Group, "version": v.Version, "resource": v.Resource}
	}
	shownKind, shownResource := kind(as.Kind), resource(as.Resource)
	askedKind, askedResource := shownKind, shownResource
	if r.RequestKind != as.Kind || r.RequestResource != as.Resource {
		askedKind, askedResource = kind(r.RequestKind), resource(r.RequestResource)
	}
	out := map[string]any{
		"kind": shownKind, "resource": shownResource, "requestKind": askedKind, "requestResource": askedResource,
		"operation": string(r.Operation), "dryRun": r.DryRun, "userInfo": userInfo(r),
	}
	for name, text := range map[string]string{
		"subResource": r.Subresource, "requestSubResource": r.RequestSubresource, "name": r.Name, "namespace": r.Namespace,
	} {
		if text != "" {
			out[name] = text
		}
	}
	out["options"] = nil // a connection has none
	if options, err := json.TreeOf(r.Options); err == nil {
		out["options"] = options
	}
	return out
}

func userInfo(r *admission.Request) map[string]any {
	out := map[string]any{}
	if r.User.Name != "" {
		out["username"] = r.User.Name
	}
	if r.User.UID != "" {
		out["uid"] = r.User.UID
	}
	if len(r.User.Groups) > 0 {
		out["groups"] = list(r.User.Groups)
	}
	if len(r.User.Extra) > 0 {
		extra := make(map[string]any, len(r.User.Extra))
		for key, values := range r.User.Extra {
			extra[key] = list(values)
		}
		out["extra"] = extra
	}
	return out
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

// Group returns the API group of policies and of configurations of webhooks for a domain; "" means k8s.io.
func Group(domain string) string {
	if domain == "" {
		domain = "k8s.io"
	}
	return "admissionregistration." + domain
}

// IsConfiguration reports whether a write is one of a policy, of its binding, or of a configuration of
// webhooks. Webhooks are not asked about these, for they would lock out whoever has to repair them.
// domain is that of [Group].
// Source: WHK-15.
func IsConfiguration(t admission.Target, domain string) bool {
	if t.Resource.Group != Group(domain) {
		return false
	}
	switch t.Resource.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingwebhookconfigurations", "mutatingwebhookconfigurations":
		return true
	}
	return false
}
