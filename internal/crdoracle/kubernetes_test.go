package crdoracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	validator "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
)

// position is where Kubernetes' problems say that the schema of the only version is.
const position = "spec.validation.openAPIV3Schema"

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}()

// kubernetes handles the objects of one schema as kube-apiserver does.
type kubernetes struct {
	structural *schema.Structural
	validator  validator.SchemaValidator
}

// definition returns a definition with a schema, as kube-apiserver reads it.
func definition(document []byte) (*apiextensions.CustomResourceDefinition, error) {
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]},
		"status":{"storedVersions":["v1"]}}`, document)
	return readDefinition([]byte(text))
}

func readDefinition(text []byte) (*apiextensions.CustomResourceDefinition, error) {
	var versioned v1.CustomResourceDefinition
	if err := json.Unmarshal(text, &versioned); err != nil {
		return nil, err
	}
	scheme.Default(&versioned)
	out := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(&versioned, out, nil); err != nil {
		return nil, err
	}
	if len(out.Status.StoredVersions) == 0 {
		for _, v := range out.Spec.Versions {
			if v.Storage {
				out.Status.StoredVersions = append(out.Status.StoredVersions, v.Name)
				break
			}
		}
	}
	return out, nil
}

// newKubernetes returns the problems of a schema if it has any.
func newKubernetes(document []byte) (*kubernetes, []cause, error) {
	c, err := definition(document)
	if err != nil {
		return nil, nil, err
	}
	if problems := validation.ValidateCustomResourceDefinition(context.Background(), c); len(problems) > 0 {
		return nil, kubernetesCauses(problems), nil
	}
	k, err := kubernetesOf(c.Spec.Validation.OpenAPIV3Schema)
	return k, nil, err
}

func kubernetesOf(props *apiextensions.JSONSchemaProps) (*kubernetes, error) {
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	v, _, err := validator.NewSchemaValidator(props)
	return &kubernetes{structural, v}, err
}

// conform returns what a body becomes: default, prune, coerce, in the order of kube-apiserver.
func (k *kubernetes) conform(body []byte) (map[string]any, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	defaulting.Default(object, k.structural)
	pruning.Prune(object, k.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, k.structural)
	if err := objectmeta.Coerce(nil, object, k.structural, false, false); err != nil {
		return nil, err
	}
	return object, nil
}

// refusal returns the field of a body that cannot be decoded.
func refusal(err error) string {
	bad, ok := errors.AsType[*field.Error](err)
	if !ok {
		return "?"
	}
	return bad.Field
}

func (k *kubernetes) create(object map[string]any) []cause {
	problems := validator.ValidateCustomResource(nil, object, k.validator)
	problems = append(problems, objectmeta.Validate(nil, object, k.structural, false)...)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	return kubernetesCauses(problems)
}

// update returns the problems of an update. Those of the schema are not reported where nothing has
// changed, as far as Kubernetes can tell.
func (k *kubernetes) update(object, old map[string]any) (ratcheted, others []cause) {
	pair := common.NewCorrelatedObject(object, old, &model.Structural{Structural: k.structural})
	ratcheted = kubernetesCauses(validator.ValidateCustomResourceUpdate(nil, object, old, k.validator, validator.WithRatcheting(pair)))
	problems := objectmeta.Validate(nil, object, k.structural, false)
	if before := listtype.ValidateListSetsAndMaps(nil, k.structural, old); len(before) == 0 {
		problems = append(problems, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	}
	return ratcheted, kubernetesCauses(problems)
}

// cause is one problem as clients see it.
type cause struct{ typ, field, message string }

func (c cause) String() string { return c.typ + " " + c.field + ": " + c.message }

func kubernetesCauses(list field.ErrorList) []cause {
	out := make([]cause, len(list))
	for i, e := range list {
		out[i] = cause{string(e.Type), e.Field, e.ErrorBody()}
	}
	return out
}

// branchOf returns the path of a problem with allOf, anyOf, oneOf or not. Kubernetes reports these
// problems without a field.
func (c cause) branchOf() (path string, ok bool) {
	i := strings.Index(c.message, ": \"")
	if c.field != "<nil>" || !strings.HasPrefix(c.message, `Invalid value: "": "`) || !strings.Contains(c.message, " validate ") || i < 0 {
		return "", false
	}
	path, _, _ = strings.Cut(strings.TrimPrefix(c.message, `Invalid value: "": "`), `" must `)
	return path, true
}
