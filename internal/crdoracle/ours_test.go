package crdoracle

import (
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// kindwright handles the objects of one schema as package internal/engine does.
type kindwright struct{ schema *openapi.Schema }

func newKindwright(document []byte) (*kindwright, []cause, error) {
	tree, err := json.DecodeTree(document, json.TreeOptions{})
	if err != nil {
		return nil, nil, err
	}
	s, problems := openapi.TreeReader{Position: position}.Read(tree.(map[string]any))
	return &kindwright{s}, ourCauses(problems), nil
}

func (k *kindwright) conform(body []byte) (map[string]any, error) {
	tree, err := json.DecodeTree(body, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	object, _ := k.schema.Prune(tree.(map[string]any))
	object, _ = k.schema.Canonical(object) // Validate reports the same problems
	return k.schema.Default(object), nil
}

func (k *kindwright) create(object map[string]any) []cause {
	return ourCauses(k.schema.Validate(object))
}

func (k *kindwright) update(object, old map[string]any) []cause {
	problems, _ := k.schema.Judge(object, old)
	return ourCauses(problems)
}

func ourCauses(problems []status.FieldError) []cause {
	out := make([]cause, len(problems))
	for i, p := range problems {
		field := p.Field
		if field == "" {
			field = "<nil>"
		}
		out[i] = cause{string(p.Type), field, p.Message()}
	}
	return out
}
