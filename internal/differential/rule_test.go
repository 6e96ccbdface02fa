package differential

import (
	"regexp"
	"slices"
	"strings"
)

// A rule is an intended difference. Our requirements, or the nature of the peer, are the reason.
type rule struct {
	id     string // of the requirement
	reason string
	holds  func(x *exchange, d difference) bool
}

// stored marks a difference in the stored state, so that an episode cannot continue.
func (r rule) stored() bool {
	return slices.Contains([]string{"CREATE-01", "META-02", "META-06", "META-12", "DEL-09", "SSA-01"}, r.id)
}

// outcomes returns a rule about the outcome of requests. The peer's is a code, or a code and a
// reason.
func outcomes(ours, peer string, also ...func(x *exchange, a, b outcome) bool) func(*exchange, difference) bool {
	return func(x *exchange, d difference) bool {
		a, ok := d.a.(outcome)
		if !ok || !strings.HasPrefix(a.String(), ours) {
			return false
		}
		b := d.b.(outcome)
		if !strings.HasPrefix(b.String(), peer) {
			return false
		}
		for _, holds := range also {
			if !holds(x, a, b) {
				return false
			}
		}
		return true
	}
}

// says is a part of our message.
func says(part string) func(*exchange, outcome, outcome) bool {
	return func(_ *exchange, a, _ outcome) bool { return strings.Contains(a.message, part) }
}

// peerSays is a part of the peer's message.
func peerSays(part string) func(*exchange, outcome, outcome) bool {
	return func(_ *exchange, _, b outcome) bool { return strings.Contains(b.message, part) }
}

// about limits a rule to some requests.
func about(is func(a *ask) bool, holds func(*exchange, difference) bool) func(*exchange, difference) bool {
	return func(x *exchange, d difference) bool { return is(x.ask) && holds(x, d) }
}

var indexPattern = regexp.MustCompile(`\[\d+\]`)

func creationTime(_ *exchange, _, b outcome) bool {
	return strings.Contains(b.message, "parsing time") || strings.Contains(b.message, "creationTimestamp")
}

func deletes(a *ask) bool { return strings.HasPrefix(a.does, "delete") }

// peerFinalizes reports whether the peer's object waits for a collector.
func peerFinalizes(x *exchange, _, _ outcome) bool {
	finalizers := show(at(x.b, "body", "metadata", "finalizers"))
	return strings.Contains(finalizers, "foregroundDeletion") || strings.Contains(finalizers, "orphan")
}

func otherCode(_ *exchange, a, b outcome) bool { return a.code != b.code }

// rules are tried in this order, and the first that matches is counted.
func rules() []rule {
	return []rule{
		{"COLL-07", "a list without another chunk may have no continue, or an empty one", func(_ *exchange, d difference) bool {
			return strings.HasSuffix(d.path, "metadata.continue") && (d.a == nil && d.b == "" || d.a == "" && d.b == nil)
		}},
		{"COLL-14", "compiled-in kinds of Kubernetes leave kind and apiVersion out of items", func(_ *exchange, d difference) bool {
			return (d.path == "body.items.*.kind" || d.path == "body.items.*.apiVersion") && d.b == nil
		}},
		{"READ-04", "deleting a collection answers with a Status, in Kubernetes with the objects", func(x *exchange, d difference) bool {
			return x.ask.does == "delete collection" && strings.HasPrefix(d.path, "body.") && x.a["code"] == "200" && text(x.b, "body", "kind") != "Status"
		}},
		{"READ-21", "a kind without columns has Name and Created At; config maps of Kubernetes have their own", func(x *exchange, d difference) bool {
			return strings.Contains(x.ask.path, configMaps) && (strings.HasSuffix(d.path, "columnDefinitions") || strings.HasSuffix(d.path, "rows.*.cells"))
		}},
		{"COLL-12", "an empty list of metadata has items, too", func(_ *exchange, d difference) bool {
			items, ok := d.a.([]any)
			return d.path == "body.items" && ok && len(items) == 0 && d.b == nil
		}},
		{"WATCH-20", "a watch ends when its time is up, also while it waits for a version", func(x *exchange, d difference) bool {
			return d.path == "events" && strings.Contains(x.ask.get("resourceVersion"), "future") &&
				(show(d.a) == "[]" && strings.Contains(show(d.b), "TooLarge") || show(d.b) == "[]" && strings.Contains(show(d.a), "TooLarge"))
		}},
		{"META-18", "a version on an object to be created is a 400, where Kubernetes answers 500", outcomes("400 BadRequest", "500", says("resourceVersion should not be set"))},
		{"NAME-06", "a prefix is judged by the name that it makes", func(x *exchange, d difference) bool {
			return strings.HasPrefix(d.path, "body.details.causes") && strings.Contains(text(x.b, "body", "message"), "metadata.generateName: Invalid")
		}},
		{"NAME-06", "a prefix is judged by the name that it makes", outcomes("20", "422", peerSays("metadata.generateName: Invalid"))},
		{"META-06", "what only the server may say of a deletion is ignored, where Kubernetes refuses some of it", outcomes("20", "422", peerSays("metadata.deletion"))},
		{"META-05", "a time of creation is ignored, also one that is no time", outcomes("", "400", creationTime)},
		{"META-06", "a time of deletion is ignored, where an apply that creates in Kubernetes stores it", func(x *exchange, d difference) bool {
			return x.ask.does == "apply" && strings.Contains(x.ask.body, `"deletion`) && d.a == nil && (strings.Contains(d.path, ".deletion") || strings.Contains(show(d.b), "f:deletion"))
		}},
		{"META-13, META-14", "a cause names the item of the list", func(_ *exchange, d difference) bool {
			if d.path == "body.details.causes" {
				return strings.Contains(show(d.a), "metadata.finalizers[") && strings.Contains(show(d.b), `"metadata.finalizers"`)
			}
			a, ok := d.a.(string)
			return ok && strings.HasSuffix(d.path, "causes.*.field") && indexPattern.ReplaceAllString(a, "") == d.b
		}},
		{"META-14", "a part of an owner reference that is missing is required, where Kubernetes calls it invalid", func(_ *exchange, d difference) bool {
			if d.path == "body.details.causes" {
				return strings.Contains(show(d.a), "metadata.ownerReferences[") && strings.Contains(show(d.b), "metadata.ownerReferences")
			}
			return strings.HasSuffix(d.path, "causes.*.reason") && d.a == "FieldValueRequired" && d.b == "FieldValueInvalid"
		}},
		{"META-06", "nobody is the manager of the time of a deletion", func(_ *exchange, d difference) bool {
			return strings.HasSuffix(d.path, "f:deletionTimestamp") || strings.HasSuffix(d.path, "f:deletionGracePeriodSeconds")
		}},
		{"META-13", "finalizers need no domain, as in Kubernetes' run-time kinds", outcomes("20", "422", peerSays("neither a standard finalizer name"))},
		{"PATCH-04", "an apply that names a version does not create", outcomes("409 Conflict", "201", says("no existing object was found"))},
		{"PATCH-05", "an apply is one document; Kubernetes reads the first", outcomes("400 BadRequest", "20", says("error converting YAML to JSON"))},
		{"PATCH-17", "$patch: merge is what merges anyway, where Kubernetes answers 500", outcomes("200", "500", peerSays("unknown patch type: merge"))},
		{"CREATE-04", "another kind is a 400 in a patch, too", outcomes("400 BadRequest", "", says("the object provided is kind"))},
		{"QUERY-22", "a timeout before now is malformed", outcomes("400 BadRequest", "", says(`invalid timeout specified`))},
		{"S11", "a boolean of a write is true or false", outcomes("400 BadRequest", "", says("is neither true nor false"))},
		{"S2", "an option of a deletion that is unknown is a 400", about(deletes, outcomes("400 BadRequest", "", says("DeleteOptions have no")))},
		{"S2", "an empty option that selects what is deleted is a 400", about(deletes, outcomes("400 BadRequest", "", says("leave it out")))},
		{"META-05", "a time of creation is ignored, also one that is no time", about(func(a *ask) bool { return strings.Contains(a.body, "creationTimestamp") }, outcomes("200", "422", peerSays("patch: Invalid value")))},
		{"DEL-09", "a collector runs here, and not beside the peer", about(func(a *ask) bool { return a.does != "create" }, outcomes("404 NotFound", "200", peerFinalizes))},
		{"DEL-09", "a collector runs here, and not beside the peer", func(x *exchange, d difference) bool {
			return strings.HasSuffix(d.path, "metadata.finalizers") && (strings.Contains(show(d.b), "foregroundDeletion") || strings.Contains(show(d.b), "orphan"))
		}},
		{"TABLE-10", "the first of the accepted forms that fits is sent, where Kubernetes takes the first", outcomes("20", "406", peerSays("but the requested object is"))},
		{"PATH-18", "quality 0 means not acceptable (RFC 9110)", about(func(a *ask) bool {
			return strings.Contains(a.head("Accept"), "q=0") && !strings.Contains(a.head("Accept"), "q=0.")
		}, outcomes("406", ""))},
		{"PATH-18", "media types are compared without case", about(func(a *ask) bool { return a.head("Accept") == "APPLICATION/JSON" }, outcomes("", "406"))},
		{"PATH-23", "a path is read strictly: no slash at its end", func(x *exchange, d difference) bool {
			return strings.HasSuffix(x.ask.path, "/") && (strings.HasPrefix(d.path, "body.details") || outcomes("404", "")(x, d))
		}},
		{"PATH-23", "a method that is not served is refused before the path is read further", about(unserved, outcomes("405", "400"))},
		{"PATH-23", "a subresource is missed after the query was read", about(unserved, outcomes("422", "404"))},
		{"ERR-22", "details of a validation name the kind, of a conflict the resource", func(_ *exchange, d difference) bool {
			return d.path == "body.details.kind" && (d.a == "Gadget" && d.b == gadgets || d.a == gadgets && d.b == "Gadget" || d.a == configMaps && d.b == "ConfigMap")
		}},
		{"GET-06", "a version that is too large says when to come back, also where Kubernetes reads from its store", func(x *exchange, d difference) bool {
			return (d.path == "header.Retry-After.0" || d.path == "body.details.retryAfterSeconds") && x.a["code"] == "504" && d.b == nil
		}},
		{"UPDATE-11", "a document is valid before a part of it is taken, where run-time kinds of Kubernetes look at the status alone", about(func(a *ask) bool { return a.does == "status" }, outcomes("422", "200"))},
		{"PATH-18", "media types are compared without case", outcomes("", "415", peerSays("415: Unsupported"))},
		{"WLIST-08", "the form of the answer is agreed on before the query is validated", about(func(a *ask) bool { return a.watch }, outcomes("406", "422"))},
		{"CREATE-06", "a write is compared with what is stored before its fields are", about(func(a *ask) bool { return a.does == "update" }, outcomes("409 Conflict", "400"))},
		{"PAGE-05", "a list with a selector has another chunk when more matches, in Kubernetes when there is more to look at", func(x *exchange, d difference) bool {
			return strings.HasSuffix(d.path, "metadata.continue") && x.ask.get("labelSelector")+x.ask.get("fieldSelector") != "" && d.a == nil && d.b == "⟦token⟧"
		}},
		{"SSA-01", "a new object is tracked, whatever managers a client sends", func(x *exchange, d difference) bool {
			return x.ask.does == "create" && strings.Contains(d.path, "managedFields") && strings.Contains(x.ask.body, "managedFields")
		}},
		{"DEL-11", "version 0 in a precondition is any", about(func(a *ask) bool { return strings.Contains(a.body, `"resourceVersion":"0"`) }, outcomes("200", "409", peerSays("precondition")))},
		{"META-18", "version 0 on an object to be created is one, too", about(func(a *ask) bool { return strings.Contains(a.body, `"resourceVersion":"0"`) }, outcomes("400", "201"))},
		{"PATH-18", "media types are compared without case", about(func(a *ask) bool { return strings.HasPrefix(a.head("Content-Type"), "APPLICATION/") }, outcomes("", "415"))},
		{"NAME-06", "a name is made for an object of the right shape only", func(x *exchange, d difference) bool {
			return d.path == "body.details.name" && x.a["code"] == "422" && d.a == nil && strings.Contains(show(d.b), "⟦made⟧")
		}},
		{"META-18", "a version on an object to be created is refused before its name is looked up", outcomes("400", "409", says("resourceVersion should not be set"))},
		{"DRY-04", "a dry run of a create has no version", func(x *exchange, d difference) bool {
			return d.path == "body.metadata.resourceVersion" && x.ask.get("dryRun") == "All" && d.a == nil
		}},
		{"PATCH-06", "what is replaced must be there (RFC 6902)", outcomes("422", "200", says("replace operation does not apply"))},
		{"TABLE-10", "a watch takes the first of the accepted forms that fits", func(x *exchange, d difference) bool {
			return d.path == "events" && strings.Contains(x.ask.head("Accept"), "List") && show(d.b) == "[]"
		}},
		{"CREATE-05", "null is no object", about(func(a *ask) bool { return a.body == "null" }, outcomes("400", "422"))},
		{"PATH-25", "HEAD is served as GET", about(func(a *ask) bool { return a.method == "HEAD" }, outcomes("", "405"))},
		{"PATH-23", "a method that is not served is refused before the request is read further", about(unserved, outcomes("405", "415"))},
		{"META-02", "generateName stays what it was", func(_ *exchange, d difference) bool {
			return d.b == nil && (strings.HasSuffix(d.path, "generateName") || strings.HasSuffix(d.path, "f:metadata") && show(d.a) == `{"f:generateName":{}}`)
		}},
		{"META-12", "a generation is never the client's, where kinds of Kubernetes without one store it", func(x *exchange, d difference) bool {
			return strings.Contains(x.ask.path, configMaps) && strings.HasSuffix(d.path, "metadata.generation") && d.a == nil
		}},
		{"META-19", "another uid is a conflict in a patch, too", about(func(a *ask) bool { return a.method == "PATCH" }, outcomes("409 Conflict", "422", says("UID in precondition")))},
		{"PATCH-15", "a JSON patch that is malformed is a 400", about(func(a *ask) bool { return a.does == "json patch" }, outcomes("400", "422", peerSays("the server rejected our request")))},
		{"PATCH-15", "a JSON patch is a list", about(func(a *ask) bool { return a.does == "json patch" && a.body == "null" }, outcomes("400", "200"))},
		{"NAME-13", "a patch may not make an object nameless", outcomes("400", "422", says("name must be provided"))},
		{"WLIST-06", "the bookmark after the initial events, as a Table, is annotated itself; in Kubernetes its only row is", func(x *exchange, d difference) bool {
			return x.ask.watch && strings.Contains(x.ask.head("Accept"), "Table") &&
				(d.path == "events.*.object.rows" && strings.Contains(show(d.b), "initial-events-end") || strings.HasSuffix(d.path, "object.metadata.annotations") && strings.Contains(show(d.a), "initial-events-end"))
		}},
		{"PATCH-15", "a strategic merge patch is an object", about(func(a *ask) bool { return a.does == "strategic patch" && a.body == "null" }, outcomes("400", "200"))},
		{"PATCH-17", "an unknown directive is a 400, where Kubernetes answers 500", about(func(a *ask) bool { return strings.Contains(a.body, `"$patch":"nonsense"`) }, outcomes("400", ""))},
		{"TABLE-10", "the first of the accepted forms that fits is sent, where Kubernetes takes the first and fails", outcomes("", "500", peerSays("content is not a list"))},
		{"TABLE-10", "a list of metadata is for lists", about(func(a *ask) bool { return a.watch }, outcomes("406", "200"))},
		{"PAGE-01", "continue says nothing to a watch", about(func(a *ask) bool { return a.watch && a.get("continue") != "" }, outcomes("200", "422"))},
		{"CRD-11", "a cause has a field, where Kubernetes adds one without", func(_ *exchange, d difference) bool {
			return d.path == "body.details.causes" && strings.Contains(show(d.b), `"field":"<nil>"`) && !strings.Contains(show(d.a), "<nil>")
		}},
		{"DEL-09", "the write that ends an object answers with the version of its end, as the watch event does", func(x *exchange, d difference) bool {
			return d.path == "body.metadata.resourceVersion" && text(x.a, "body", "metadata", "deletionTimestamp") != ""
		}},
		{"CREATE-01", "a null is no value, where maps of text in Kubernetes make an empty one of it", func(x *exchange, d difference) bool {
			return d.a == nil && strings.Contains(x.ask.body, "null") && (d.b == "" || strings.Contains(d.path, "metadata"))
		}},
		{"CREATE-01", "what was sent is stored: an empty map has a manager, too", func(x *exchange, d difference) bool {
			return strings.Contains(x.ask.path, configMaps) && (strings.HasSuffix(d.path, "fieldsV1.f:data") && show(d.a) == "{}" && d.b == nil || strings.Contains(d.path, "managedFields")) && (strings.HasSuffix(d.path, "f:data") || strings.Contains(x.ask.body, "null") || strings.Contains(x.ask.body, "$patch") || strings.Contains(x.ask.body, `"data":{}`))
		}},
		{"CREATE-01", "what was sent is stored: an empty map stays one, where compiled-in kinds of Kubernetes lose it", func(x *exchange, d difference) bool {
			m, ok := d.a.(map[string]any)
			return ok && len(m) == 0 && d.b == nil && strings.HasSuffix(d.path, ".data")
		}},
		{"READ-23", "a limit with version 0 is honoured", func(x *exchange, d difference) bool {
			return x.ask.get("limit") != "" && x.ask.get("resourceVersion") == "0" && x.a["code"] == "200" && x.b["code"] == "200" &&
				(d.path == "body.items" || d.path == "body.rows" || d.path == "body.metadata.continue" || d.path == "body.metadata.remainingItemCount")
		}},
		{"PAGE-02", "a token is for the list that it came from: collection and selectors", outcomes("400 BadRequest", "", says("it was not made for this list"))},
		{"GET-07", "a version that is no number, where Kubernetes answers 500 without a reason", outcomes("400 BadRequest", "500", says("invalid resource version"))},
		{"GET-07", "a version that was never issued (leading zero), where Kubernetes reads the number", outcomes("400 BadRequest", "", says("Invalid value: \"N\""))},
		{"CREATE-06", "a value of a wrong type is a 422 that names its field, where Kubernetes fails to decode", outcomes("422 Invalid", "400 BadRequest", peerSays("cannot be handled as"))},
		{"CREATE-06", "a value of a wrong type is a 422 that names its field, where Kubernetes fails to apply it", outcomes("422 Invalid", "500", peerSays("failed to"))},
		{"ERR-22", "a name in an error is cut to a length that is safe to log", func(_ *exchange, d difference) bool {
			a, ok := d.a.(string)
			b, _ := d.b.(string)
			return ok && d.path == "body.details.name" && strings.HasPrefix(b, strings.TrimSuffix(a, "…"))
		}},
		{"CRD-09", "null is absent, where run-time kinds of Kubernetes call it a wrong type", func(x *exchange, d difference) bool {
			return strings.Contains(x.ask.body, "null") && (d.a == "FieldValueRequired" && d.b == "FieldValueTypeInvalid" || outcomes("20", "422", peerSays(`"null"`))(x, d))
		}},
		{"LIST-06", "Exact is exact with a selector of one name, too", func(x *exchange, d difference) bool {
			return x.ask.exactly != "" && strings.Contains(x.ask.get("fieldSelector"), "metadata.name=") && text(x.a, "body", "metadata", "resourceVersion") == "as asked for: true" &&
				text(x.b, "body", "metadata", "resourceVersion") == "as asked for: false"
		}},
		{"SSA-03", "an apply that conflicts and is invalid is a conflict", outcomes("409 Conflict", "422", says("Apply failed"))},
		{"PATCH-06", "what is copied must be there (RFC 6902), where Kubernetes copies a null", about(func(a *ask) bool { return strings.Contains(a.body, `"copy"`) }, outcomes("422", "200"))},
		{"READ-04", "a Status is no list of metadata", about(func(a *ask) bool { return a.does == "delete collection" }, outcomes("406", "200"))},
		{"QUERY-23", "an unknown field is dropped with a warning, where an apply in Kubernetes ends with 500", outcomes("", "500", peerSays("field not declared in schema"))},
		{"CREATE-04", "a kind or apiVersion that is missing comes from the URL", outcomes("", "400 BadRequest", peerSays("API version in the data ()"))},
		{"CREATE-04", "a kind or apiVersion that is missing comes from the URL", outcomes("", "400 BadRequest", peerSays("Object 'Kind' is missing"))},
		{"PATH-18", "media types are compared without case, and with ranges, where Kubernetes' router has a list", outcomes("", "406", peerSays("406: Not Acceptable"))},
		{"NAME-07", "a name that is given is not one that was generated, so there is nothing to retry", func(x *exchange, d difference) bool {
			return (d.path == "header.Retry-After.0" || d.path == "body.details.retryAfterSeconds") && x.ask.does == "create" && d.a == nil && d.b != nil && strings.Contains(x.ask.body, "generateName")
		}},
		{"PATCH-15", "a JSON patch that does not apply is explained by a cause", func(x *exchange, d difference) bool {
			return x.ask.method == "PATCH" && x.a["code"] == "422" && strings.HasPrefix(d.path, "body.details") && d.b == nil
		}},
		{"PATCH-15", "a patch that makes a value of a wrong type names the field", func(x *exchange, d difference) bool {
			return x.ask.method == "PATCH" && strings.HasPrefix(d.path, "body.details.causes.*.") && (d.a == "patch" || d.b == "patch" || d.b == "FieldValueInvalid" && d.a == "FieldValueTypeInvalid")
		}},
		{"PATH-23", "an absent object is missed before its request is read further", outcomes("404 NotFound", "4", says("not found"), otherCode)},
		{"PATH-23", "an absent object is missed after its request was read further", outcomes("4", "404 NotFound", peerSays("not found"), otherCode)},
		{"PATH-23", "what is not served is a Status, where Kubernetes writes text below /apis", about(unserved, outcomes("40", "404"))},
		{"PATH-25", "a method that no route has is 405 everywhere, with Allow", func(x *exchange, d difference) bool {
			return d.path == "header.Allow.0" && d.b == nil || x.ask.method == "HEAD" && d.path == "header.Content-Type.0"
		}},
		{"ERR-22", "details of a refusal by a route", func(x *exchange, d difference) bool {
			return strings.HasPrefix(d.path, "body.details") && slices.Contains([]any{"404", "405", "406", "415"}, x.a["code"]) && (text(x.b, "body", "details", "name") == "" || unserved(x.ask))
		}},
	}
}

func unserved(a *ask) bool { return a.does == "other" || a.does == "status" }
