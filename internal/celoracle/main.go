// Program celoracle records what Kubernetes' own implementation says to many expressions, for the
// tests of package cel. It has its own module because Kubernetes builds on another version of cel-go.
//
//	go run . > ../../cel/testdata/kubernetes.jsonl
//
// The first line of the output is the schema and the object that all expressions see. Each other
// line is one expression with Kubernetes' answer: why it does not compile, or the estimate of its
// cost, its result, and what it cost.
//
//	go run . writes > ../../cel/testdata/writes.jsonl
//	go run . writes 50000 7 > elsewhere.jsonl
//	go run . writes 50000 7 50000 > therest.jsonl
//
// Each line of this output is a schema with rules, an object, the object that it replaces if there is
// one, and the causes and the warnings of the write. The numbers are how many writes, their seed, and how
// many of this seed to leave out first.
//
//	go run . admission > ../../cel/testdata/admission.jsonl
//
// The first line of this output is what the expressions of policies see of a write, and the variables
// of the policy. Each other line is one expression with Kubernetes' answer.
//
//	go run . authentication > ../../config/testdata/authentication.jsonl
//	go run . authorization > ../../config/testdata/authorization.jsonl
//	go run . policy > ../../config/testdata/policy.jsonl
//
// Each line of these is a document of configuration, most with some errors, and what is wrong with it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Answer is what Kubernetes says to an expression.
type Answer struct {
	Rule    string `json:"rule"`
	Problem string `json:"problem,omitempty"`     // why it does not compile
	Most    uint64 `json:"most,omitempty,string"` // the estimate of its cost
	Result  string `json:"result,omitempty"`      // true, false, or what failed
	Cost    uint64 `json:"cost,omitempty,string"`
}

func main() {
	records := record
	switch what := strings.Join(os.Args[1:min(len(os.Args), 2)], ""); what {
	case "writes":
		records = recordWrites(number(4, 0), number(2, writesCount), number(3, 1))
	case "admission":
		records = recordAdmission
	case "":
	default:
		records = recordDocuments(what)
	}
	if err := records(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// record writes all answers.
func record(to io.Writer) error {
	out := bufio.NewWriter(to)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	structural, err := read(schemaDocument)
	if err != nil {
		return err
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(objectDocument), &object); err != nil {
		return err
	}
	if err := encoder.Encode(map[string]any{"schema": json.RawMessage(schemaDocument), "object": json.RawMessage(objectDocument)}); err != nil {
		return err
	}
	object = integers(object).(map[string]any)
	for _, rule := range expressions() {
		if err := encoder.Encode(ask(structural, object, rule)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// number returns an argument of the program.
func number(at, otherwise int) int {
	if len(os.Args) <= at {
		return otherwise
	}
	n, err := strconv.Atoi(os.Args[at])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return n
}

// recordWrites writes some random writes, without the first ones.
func recordWrites(from, count, seed int) func(io.Writer) error {
	return func(to io.Writer) error {
		out := bufio.NewWriter(to)
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		for w, err := range writes(from, count, seed) {
			if err != nil {
				return err
			}
			if err := encoder.Encode(w); err != nil {
				return err
			}
		}
		return out.Flush()
	}
}

// read reads a schema document.
func read(document string) (*schema.Structural, error) {
	var props v1.JSONSchemaProps
	if err := json.Unmarshal([]byte(document), &props); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return nil, err
	}
	return schema.NewStructural(&internal)
}

// integers returns a document with whole numbers as a server decodes them.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	}
	return v
}

// typeName is the name of the type of self, which changes from run to run.
var typeName = regexp.MustCompile(`selfType[0-9]+`)

// ask compiles and evaluates one expression.
func ask(structural *schema.Structural, object map[string]any, rule string) Answer {
	out := Answer{Rule: rule}
	s := *structural
	s.XValidations = v1.ValidationRules{{Rule: rule}}
	results, err := cel.Compile(&s, model.SchemaDeclType(&s, true), celconfig.PerCallLimit,
		environment.MustBaseEnvSet(version.MajorMinor(1, 35)), cel.StoredExpressionsEnvLoader())
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	result := results[0]
	if result.Error != nil {
		out.Problem = typeName.ReplaceAllString(result.Error.Detail, "self")
		return out
	}
	out.Most = result.MaxCost
	value, details, err := result.Program.ContextEval(context.Background(), map[string]any{
		"self": cel.UnstructuredToVal(object, model.WithTypeAndObjectMeta(&s)),
	})
	out.Result = describe(value, err)
	if details != nil && details.ActualCost() != nil {
		out.Cost = *details.ActualCost()
	}
	return out
}

func describe(value any, err error) string {
	if err != nil {
		return "failed: " + err.Error()
	}
	if b, ok := value.(interface{ Value() any }); ok {
		return fmt.Sprint(b.Value())
	}
	return fmt.Sprintf("%v of the type %s", value, celgo.DynType)
}
