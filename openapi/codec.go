package openapi

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
)

// codec converts scalars to the form in which a Go type's own JSON methods write them. For example,
// the quantity "1000m" becomes "1", because its type writes "1". Conversion is a round trip through
// the Go type, so it costs more than a Notation.
type codec struct {
	name   string
	goType reflect.Type
	amount bool // digits and an exponent, which the Go type computes with, however large they are
}

// maxAmountDigits and maxAmountExponent bound what computing with an amount costs. Comparing 1e10000000 with
// another one takes seconds in the Go type of Kubernetes, and a million digits take a minute to write. Package
// cel has the same bounds.
const (
	maxAmountDigits   = 1000
	maxAmountExponent = 1000
)

// checkAmount rejects a text that no Go type shall compute with. Any other text is the type's to judge.
func checkAmount(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	number := strings.TrimLeft(strings.TrimSpace(text), "+-")
	rest := strings.TrimLeft(number, "0123456789.")
	if digits := number[:len(number)-len(rest)]; len(digits)-strings.Count(digits, ".") > maxAmountDigits {
		return fmt.Errorf("has more than %d digits", maxAmountDigits)
	}
	exponent := strings.TrimLeft(rest, "eE")
	if exponent == rest {
		return nil
	}
	n, err := strconv.ParseInt(exponent, 10, 64)
	if beyond := errors.Is(err, strconv.ErrRange); beyond || err == nil && (n < -maxAmountExponent || n > maxAmountExponent) {
		return fmt.Errorf("has an exponent that is not between -%d and %d", maxAmountExponent, maxAmountExponent)
	}
	return nil
}

// canonical decodes the value into the Go type and encodes it again.
func (c *codec) canonical(v any) (any, error) {
	if c.amount {
		if err := checkAmount(v); err != nil {
			return v, err
		}
	}
	text, err := json.AppendTree(nil, v)
	if err != nil {
		return v, err
	}
	value := reflect.New(c.goType)
	if err := json.Unmarshal(text, value.Interface()); err != nil {
		return v, c.invalid(err)
	}
	written, err := json.Marshal(value.Interface())
	if err != nil {
		return v, fmt.Errorf("is not a valid %s: %w", c.goType.Name(), err)
	}
	out, err := json.DecodeTree(written, json.TreeOptions{})
	if err != nil {
		return v, fmt.Errorf("is not a valid %s: %w", c.goType.Name(), err)
	}
	switch out.(type) {
	case map[string]any, []any, nil:
		return v, nil // not a scalar: leave it alone
	}
	return out, nil
}

// invalid tells the author of an object what is wrong with a value, without the Go error around
// it.
func (c *codec) invalid(err error) error {
	if c.goType == reflect.TypeFor[time.Time]() {
		return errors.New("must be a time such as 2006-01-02T15:04:05Z")
	}
	if typed := new(json.TypeError); errors.As(err, &typed) && typed.Err != nil {
		err = typed.Err
	}
	return fmt.Errorf("is not a valid %s: %w", c.goType.Name(), err)
}

// The methods with which types of the Kubernetes libraries describe their JSON form.
type (
	openAPITyped interface{ OpenAPISchemaType() []string }
	openAPIForm  interface{ OpenAPISchemaFormat() string }
	openAPIOneOf interface{ OpenAPIV3OneOfTypes() []string }
	swaggerDoc   interface{ SwaggerDoc() map[string]string }
	modelNamed   interface{ OpenAPIModelName() string }
)

var (
	jsonMarshaler = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// has reports whether T or *T implements an interface type.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}

// as returns a zero value of T as an interface that T or *T implements.
func as[I any](t reflect.Type) (I, bool) {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[I]()) {
		var none I
		return none, false // the common case: avoids allocating a value
	}
	i, ok := reflect.New(t).Interface().(I)
	return i, ok
}
