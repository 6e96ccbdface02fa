package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// parameters are the parameters of a policy as a server has them at the time of a request.
type parameters struct {
	kind *ParamKind
	form admission.Form
}

// resolve finds the resource of the parameters.
func (p *parameters) resolve(server admission.Server) error {
	if p.kind == nil {
		return nil
	}
	gv, err := meta.ParseGroupVersion(p.kind.APIVersion)
	if err != nil {
		return err
	}
	if server == nil {
		return errors.New("the request has no server")
	}
	form, ok := server.ResourceOf(gv.WithKind(p.kind.Kind))
	if !ok {
		return fmt.Errorf("failed to find resource referenced by paramKind: '%s'", gv.WithKind(p.kind.Kind))
	}
	p.form = form
	return nil
}

// collect returns the parameters of a binding. A policy without parameters has a single nil.
// Source: POL-03.
func (p *parameters) collect(ctx context.Context, server admission.Server, b *binding, namespace string) ([]map[string]any, error) {
	ref := b.spec.ParamRef
	if p.kind == nil || ref == nil {
		return []map[string]any{nil}, nil
	}
	switch {
	case p.form.ClusterScoped:
		if ref.Namespace != "" {
			return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
		}
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	found, err := p.find(ctx, server, b, namespace)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, nil
}

func (p *parameters) find(ctx context.Context, server admission.Server, b *binding, namespace string) ([]map[string]any, error) {
	ref := b.spec.ParamRef
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		one, err := server.Get(ctx, p.form.Resource, namespace, ref.Name)
		switch {
		case status.ReasonOf(err) == meta.ReasonNotFound:
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []map[string]any{one}, nil
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	case b.failed != nil:
		return nil, b.failed
	}
	var out []map[string]any
	for one, err := range server.List(ctx, p.form.Resource, namespace) {
		if err != nil {
			return nil, err
		}
		if b.params.Matches(labelsOf(one)) {
			out = append(out, one)
		}
	}
	return out, nil
}

func labelsOf(object map[string]any) meta.LabelMap {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	out := make(meta.LabelMap, len(all))
	for key := range all {
		out[key] = tree.Text(all, key)
	}
	return out
}
