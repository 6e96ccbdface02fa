package cel

import (
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
)

// AskFunc decides whether a user may do something. Whoever provides it remembers decisions: an
// expression can ask the same question many times.
type AskFunc func(authz.Attributes) (authz.Decision, string, error)

// question is what an expression is about to ask. Each function of the library returns a copy with
// one more detail.
type question struct {
	ask            AskFunc
	about          authz.Attributes
	fields, labels string // selectors
}

// decision is the answer to a question.
type decision struct {
	allowed bool
	reason  string
	err     error
}

// asker, asked and answered are values of the library. They have functions and no fields, and are
// not equal to anything.
type (
	asker    = extension[question]
	answered = extension[decision]
)

// Types of the authorizer library.
var (
	authorizerType    = celgo.ObjectType("kubernetes.authorization.Authorizer")
	pathCheckType     = celgo.ObjectType("kubernetes.authorization.PathCheck")
	groupCheckType    = celgo.ObjectType("kubernetes.authorization.GroupCheck")
	resourceCheckType = celgo.ObjectType("kubernetes.authorization.ResourceCheck")
	decisionType      = celgo.ObjectType("kubernetes.authorization.Decision")
)

// authorizerLibrary has the checks of the variable authorizer.
// Source: CEL-09.
func authorizerLibrary() []celgo.EnvOption {
	detail := func(name, id string, of, result *types.Type, set func(*question, string) error) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(of, celgo.StringType), result, binary(func(a *asker, text types.String) ref.Val {
			q := a.data
			if err := set(&q, string(text)); err != nil {
				return types.WrapErr(err)
			}
			return &asker{is: result, data: q}
		})))
	}
	part := func(name, id string, result *types.Type, read func(decision) ref.Val) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(decisionType), result,
			unary(func(d *answered) ref.Val { return read(d.data) })))
	}
	check := binary(func(a *asker, verb types.String) ref.Val { return a.data.answer(string(verb)) })
	return []celgo.EnvOption{
		detail("path", "authorizer_path", authorizerType, pathCheckType, func(q *question, s string) error {
			q.about.Path = s
			return notBlank("path", s)
		}),
		detail("group", "authorizer_group", authorizerType, groupCheckType, func(q *question, s string) error {
			q.about.ResourceRequest, q.about.Group, q.about.Version = true, s, "*"
			return nil
		}),
		celgo.Function("serviceAccount", celgo.MemberOverload("authorizer_serviceaccount",
			signature(authorizerType, celgo.StringType, celgo.StringType), authorizerType, celgo.FunctionBinding(asServiceAccount))),
		detail("resource", "groupcheck_resource", groupCheckType, resourceCheckType, func(q *question, s string) error {
			q.about.Resource = s
			return notBlank("resource", s)
		}),
		detail("subresource", "resourcecheck_subresource", resourceCheckType, resourceCheckType, func(q *question, s string) error {
			q.about.Subresource = s
			return nil
		}),
		detail("namespace", "resourcecheck_namespace", resourceCheckType, resourceCheckType, func(q *question, s string) error {
			q.about.Namespace = s
			return nil
		}),
		detail("name", "resourcecheck_name", resourceCheckType, resourceCheckType, func(q *question, s string) error {
			q.about.Name = s
			return nil
		}),
		celgo.Function("check",
			celgo.MemberOverload("pathcheck_check", signature(pathCheckType, celgo.StringType), decisionType, check),
			celgo.MemberOverload("resourcecheck_check", signature(resourceCheckType, celgo.StringType), decisionType, check)),
		part("errored", "decision_errored", celgo.BoolType, func(d decision) ref.Val { return types.Bool(d.err != nil) }),
		part("error", "decision_error", celgo.StringType, func(d decision) ref.Val {
			if d.err == nil {
				return types.String("")
			}
			return types.String(d.err.Error())
		}),
		part("allowed", "decision_allowed", celgo.BoolType, func(d decision) ref.Val { return types.Bool(d.allowed) }),
		part("reason", "decision_reason", celgo.StringType, func(d decision) ref.Val { return types.String(d.reason) }),
	}
}

// selectorLibrary adds selectors to the questions about resources.
// Source: CEL-27.
func selectorLibrary() []celgo.EnvOption {
	selector := func(name, id string, set func(*question, string)) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(resourceCheckType, celgo.StringType), resourceCheckType,
			binary(func(a *asker, text types.String) ref.Val {
				q := a.data
				set(&q, string(text))
				return &asker{is: resourceCheckType, data: q}
			})))
	}
	return []celgo.EnvOption{
		selector("fieldSelector", "authorizer_fieldselector", func(q *question, s string) { q.fields = s }),
		selector("labelSelector", "authorizer_labelselector", func(q *question, s string) { q.labels = s }),
	}
}

// blank is the error of a text that must not be empty.
type blank string

func (b blank) Error() string { return string(b) + " must not be empty" }

func notBlank(what, text string) error {
	if strings.TrimSpace(text) == "" {
		return blank(what)
	}
	return nil
}

// asServiceAccount asks on behalf of a service account.
func asServiceAccount(args ...ref.Val) ref.Val {
	a, ok := args[0].(*asker)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	namespace, ok := args[1].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	name, ok := args[2].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[2])
	}
	if meta.CheckDNSSubdomain(string(name)) != "" {
		return types.NewErr("Invalid service account name")
	}
	if meta.CheckDNSLabel(string(namespace)) != "" {
		return types.NewErr("Invalid service account namespace")
	}
	q := a.data
	q.about.User = authn.User{
		Name:   authn.ServiceAccountPrefix + string(namespace) + ":" + string(name),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + string(namespace)},
	}
	return &asker{is: authorizerType, data: q}
}

// answer asks. A selector that cannot be read is left out: the question is then about all objects.
func (q question) answer(verb string) ref.Val {
	q.about.Verb = verb
	if selector, err := meta.ParseFieldSelector(q.fields); err == nil {
		q.about.Fields = selector
	}
	if selector, err := meta.ParseSelector(q.labels); err == nil {
		q.about.Labels = selector
	}
	d, reason, err := q.ask(q.about)
	return &answered{is: decisionType, data: decision{allowed: d == authz.Allow && err == nil, reason: reason, err: err}}
}
