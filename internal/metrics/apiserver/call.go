package apiserver

import (
	"net/http"
	"slices"
)

// A Verb is what a request does, as the label says it: the HTTP method, but for reads, patches and
// connections, whose sorts differ more in cost than the methods do.
type Verb uint8

// The verbs. Values beyond Verbs are counted as OtherVerb.
const (
	OtherVerb Verb = iota
	Get
	List
	Watch
	Post
	Put
	Patch
	Apply
	Delete
	Connect
	Verbs // how many there are
)

var verbNames = [Verbs]string{
	OtherVerb: "other", Get: "GET", List: "LIST", Watch: "WATCH", Post: "POST", Put: "PUT", Patch: "PATCH",
	Apply: "APPLY", Delete: "DELETE", Connect: "CONNECT",
}

// A Scope is how much a request is about.
type Scope uint8

// The scopes. Values beyond Scopes are counted as NoScope.
const (
	NoScope        Scope = iota // not a resource
	ClusterScope                // a collection of the whole cluster
	NamespaceScope              // a collection in one namespace
	ResourceScope               // one object
	Scopes                      // how many there are
)

var scopeNames = [Scopes]string{NoScope: "", ClusterScope: "cluster", NamespaceScope: "namespace", ResourceScope: "resource"}

// DryRun is what a request says about being tried only.
type DryRun uint8

// The values of dryRun. Values beyond DryRuns are counted as InvalidDryRun.
const (
	NoDryRun DryRun = iota
	DryRunAll
	InvalidDryRun
	DryRuns // how many there are
)

var dryRunNames = [DryRuns]string{NoDryRun: "", DryRunAll: "All", InvalidDryRun: "invalid"}

// A Call is what the labels say about a request beside its resource and its code.
type Call struct {
	Verb   Verb
	Scope  Scope
	DryRun DryRun
}

// bounded returns c with every value inside its table.
func (c Call) bounded() Call {
	if c.Verb >= Verbs {
		c.Verb = OtherVerb
	}
	if c.Scope >= Scopes {
		c.Scope = NoScope
	}
	if c.DryRun >= DryRuns {
		c.DryRun = InvalidDryRun
	}
	return c
}

// A Target is what the parser found out about a request.
type Target struct {
	Method     string
	Resource   bool   // the path names a resource
	Collection bool   // and no object of it
	Namespace  string // that the path names
	Watch      bool   // a read that asks for changes
	Apply      bool   // a PATCH with the media type of an apply
	Connect    bool   // the subresource is for connections, whatever the method
	DryRun     []string
}

// Call returns the labels of t. HEAD counts as GET. A create counts as a request for one object, although
// its path names the collection.
func (t *Target) Call() Call {
	c := Call{Verb: t.verb(), Scope: t.scope()}
	switch {
	case len(t.DryRun) == 0:
	case !slices.ContainsFunc(t.DryRun, func(s string) bool { return s != "All" }):
		c.DryRun = DryRunAll
	default:
		c.DryRun = InvalidDryRun
	}
	return c
}

func (t *Target) verb() Verb {
	if t.Connect {
		return Connect
	}
	switch t.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case t.Watch:
			return Watch
		case t.Resource && t.Collection:
			return List
		}
		return Get
	case http.MethodPost:
		return Post
	case http.MethodPut:
		return Put
	case http.MethodPatch:
		if t.Apply {
			return Apply
		}
		return Patch
	case http.MethodDelete:
		return Delete
	case http.MethodConnect:
		return Connect
	}
	return OtherVerb
}

func (t *Target) scope() Scope {
	switch {
	case !t.Resource:
		return NoScope
	case !t.Collection || t.Method == http.MethodPost:
		return ResourceScope
	case t.Namespace != "":
		return NamespaceScope
	}
	return ClusterScope
}
