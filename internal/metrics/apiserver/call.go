package apiserver

import (
	"net/http"
	"strconv"
)

// A Verb is what a request does, as the label says it: the HTTP method, but for reads, patches and
// connections, whose sorts differ more in cost than the methods do.
type Verb uint8

// The verbs.
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

// VerbOf returns the verb of a request that is not for a resource. HEAD counts as GET.
func VerbOf(method string) Verb {
	switch method {
	case http.MethodGet, http.MethodHead, "":
		return Get
	case http.MethodPost:
		return Post
	case http.MethodPut:
		return Put
	case http.MethodPatch:
		return Patch
	case http.MethodDelete:
		return Delete
	case http.MethodConnect:
		return Connect
	}
	return OtherVerb
}

// A Scope is how much a request is about.
type Scope uint8

// The scopes.
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

// The values of dryRun.
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

// bodyName is the verb of a write in the family of body sizes, "" for a call without a body.
func (c Call) bodyName() string {
	switch c.Verb {
	case Post:
		return "create"
	case Put:
		return "update"
	case Patch, Apply:
		return "patch"
	case Delete:
		if c.Scope != ResourceScope {
			return "delete_collection"
		}
		return "delete"
	}
	return ""
}

// fold reduces a response code to one that has a name. 0 is a request that ended without an answer.
// A subresource or a plugin can answer with any number: those without a name become the first
// digit, and what is not a code of an answer becomes 1.
func fold(code int) int {
	switch class := code / 100; {
	case code == 0 || http.StatusText(code) != "":
		return code
	case class >= 2 && class <= 5:
		return class
	}
	return 1
}

// codeName is the label of a folded code. The names match the patterns of dashboards, such as 5..
// for failures of the server.
func codeName(folded int) string {
	switch {
	case folded == 1:
		return "other"
	case folded > 1 && folded < 10:
		return strconv.Itoa(folded) + "xx"
	}
	return strconv.Itoa(folded)
}
