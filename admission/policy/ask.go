package policy

import (
	"context"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
)

// answer is a decision of the authorizer.
type answer struct {
	decision authz.Decision
	reason   string
	err      error
}

// asks returns a function that asks the server's authorizer and remembers its answers for the request:
// the policies of one write often ask the same. It is nil without a server.
// Source: POL-04.
func asks(ctx context.Context, r *admission.Request) cel.AskFunc {
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

// about is the question about the object of a request, as authorizer.requestResource asks it.
func about(r *admission.Request) authz.Attributes {
	return authz.Attributes{
		User: r.User, ResourceRequest: true, Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource,
		Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
}
