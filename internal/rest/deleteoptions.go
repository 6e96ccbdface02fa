package rest

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/nearly"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// deleteOptions reads the options of a deletion. They come in the query, in the body, or in both if
// both say the same. Kubernetes takes those of the body and ignores the query; where that would lose
// an option, the request is rejected instead (DEL-12, S2).
func (c *call) deleteOptions() (request.Query, registry.DeleteOptions, error) {
	q := c.info.Query
	var o registry.DeleteOptions
	if err := q.ValidateDelete(); err != nil {
		return q, o, err
	}
	var d *protobuf.Descriptor
	if c.isProtobuf() {
		d = c.proto.deleteOptions()
	}
	body, err := c.bodyUpTo(maxDeleteOptions, d)
	if err != nil {
		return q, o, err
	}
	o.UID = meta.UID(q.PreconditionUID)
	if len(body) > 0 {
		sent, err := decodeDeleteOptions(body)
		if err != nil {
			return q, o, err
		}
		if !saysNothing(&sent) {
			if err := agree(&q, &sent); err != nil {
				return q, o, err
			}
			if err := override(&q, &sent).ValidateDelete(); err != nil {
				return q, o, err
			}
			if err := o.Require(sent.Preconditions); err != nil {
				return q, o, err
			}
		}
	}
	if q.IgnoreReadErrors != nil && *q.IgnoreReadErrors {
		o.IgnoreReadError = true
		if c.opts.MayIgnoreReadErrors != nil {
			o.MayIgnoreReadErrors = func(ctx context.Context) error { return c.opts.MayIgnoreReadErrors(ctx, c.info) }
		}
	}
	o.DryRun, o.Propagation, o.OrphanDependents, o.GracePeriod = q.IsDryRun(), propagation(&q), q.OrphanDependents, q.GracePeriodSeconds
	return q, o, nil
}

// saysNothing reports whether a body has no option. Some clients send such a body beside a query.
func saysNothing(o *meta.DeleteOptions) bool {
	return o.GracePeriodSeconds == nil && o.Preconditions == nil && o.OrphanDependents == nil && o.PropagationPolicy == nil &&
		o.DryRun == nil && o.IgnoreStoreReadErrorWithClusterBreakingPotential == nil
}

// agree rejects an option of the query that the body does not repeat.
func agree(q *request.Query, body *meta.DeleteOptions) error {
	var uid *meta.UID
	if body.Preconditions != nil {
		uid = body.Preconditions.UID
	}
	for _, option := range []struct {
		name  string
		agree bool
	}{
		{"dryRun", len(q.DryRun) == 0 || len(body.DryRun) > 0},
		{"gracePeriodSeconds", repeats(q.GracePeriodSeconds, body.GracePeriodSeconds)},
		{"orphanDependents", repeats(q.OrphanDependents, body.OrphanDependents)},
		{"propagationPolicy", q.PropagationPolicy == "" || body.PropagationPolicy != nil && string(*body.PropagationPolicy) == q.PropagationPolicy},
		{"ignoreStoreReadErrorWithClusterBreakingPotential", repeats(q.IgnoreReadErrors, body.IgnoreStoreReadErrorWithClusterBreakingPotential)},
		{"uid", q.PreconditionUID == "" || uid != nil && string(*uid) == q.PreconditionUID},
	} {
		if !option.agree {
			return status.BadRequest("the query and the body of the request disagree about %s: send all options of a deletion in one of them", option.name)
		}
	}
	return nil
}

// repeats reports whether a value of the query, if there is one, is that of the body.
func repeats[T comparable](query, body *T) bool {
	return query == nil || body != nil && *body == *query
}

// override puts the options of a body in place of those of the query.
func override(q *request.Query, body *meta.DeleteOptions) *request.Query {
	q.DryRun, q.GracePeriodSeconds, q.OrphanDependents = body.DryRun, body.GracePeriodSeconds, body.OrphanDependents
	q.IgnoreReadErrors = body.IgnoreStoreReadErrorWithClusterBreakingPotential
	if p := body.Preconditions; p != nil && p.UID != nil {
		q.PreconditionUID = string(*p.UID)
	} else if p != nil && p.ResourceVersion != nil {
		q.PreconditionUID = *p.ResourceVersion // any precondition will do here: none goes together with IgnoreReadErrors
	}
	q.Raw, q.PropagationPolicy = nil, ""
	if body.PropagationPolicy != nil {
		q.PropagationPolicy = string(*body.PropagationPolicy)
		q.Raw = url.Values{"propagationPolicy": {q.PropagationPolicy}} // so that an empty one is seen to be there
	}
	return q
}

// The members of DeleteOptions and of its preconditions.
var (
	deleteMembers = [...]string{
		"kind", "apiVersion", "gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun",
		"ignoreStoreReadErrorWithClusterBreakingPotential",
	}
	conditionMembers = [...]string{"uid", "resourceVersion"}
)

// maxShownKind bounds how much of a wrong kind or name an error repeats; no kind has a longer name.
const maxShownKind = 63

// decodeDeleteOptions reads the body of a deletion. Names are exact, none is unknown or given twice,
// and no option is empty: a deletion that loses one deletes more than was meant.
func decodeDeleteOptions(body []byte) (meta.DeleteOptions, error) {
	var o meta.DeleteOptions
	tree, err := json.DecodeTree(body, json.TreeOptions{})
	if err != nil {
		return o, status.BadRequest("the body of the request cannot be read as DeleteOptions: %v", err)
	}
	members, ok := tree.(map[string]any)
	if !ok {
		return o, status.BadRequest("the body of the request cannot be read as DeleteOptions: it is not an object")
	}
	if kind, _ := members["kind"].(string); kind != "" && kind != "DeleteOptions" {
		return o, status.BadRequest("the body of a DELETE is DeleteOptions, not %q", kind[:min(len(kind), maxShownKind)])
	}
	if err := checkMembers(members, "", deleteMembers[:]); err != nil {
		return o, err
	}
	conditions, _ := members["preconditions"].(map[string]any)
	if err := checkMembers(conditions, "preconditions.", conditionMembers[:]); err != nil {
		return o, err
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return o, status.BadRequest("the body of the request cannot be read as DeleteOptions: %v", err)
	}
	return o, nil
}

func checkMembers(object map[string]any, path string, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, name) {
			hint := ""
			if near := nearly.Name(name, known); near != "" {
				hint = "; did you mean \"" + path + near + "\"?"
			}
			return status.BadRequest("DeleteOptions have no %.*q%s", maxShownKind, path+name, hint)
		}
		if conditions, is := object[name].(map[string]any); is && len(conditions) == 0 && name == "preconditions" {
			continue // controller-runtime sends it for preconditions without any
		}
		if isEmpty(object[name]) {
			return status.BadRequest("%q of the DeleteOptions is empty; leave it out if it is not meant", path+name)
		}
	}
	return nil
}

// isEmpty reports whether a member is there without a value.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// propagation joins the policy and its older form.
func propagation(q *request.Query) meta.DeletionPropagation {
	switch {
	case q.PropagationPolicy != "":
		return meta.DeletionPropagation(q.PropagationPolicy)
	case q.OrphanDependents == nil:
		return ""
	case *q.OrphanDependents:
		return meta.DeletePropagationOrphan
	}
	return meta.DeletePropagationBackground
}
