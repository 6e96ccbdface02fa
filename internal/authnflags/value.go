package authnflags

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The types of values are named after those of other flags, because usage shows the names. Each notes
// that its flag was given.

type stringValue struct {
	text  string
	given *bool
}

// String returns the text.
func (v *stringValue) String() string { return v.text }

// Set replaces the text.
func (v *stringValue) Set(text string) error {
	v.text, *v.given = text, true
	return nil
}

type boolValue struct {
	on    bool
	given *bool
}

// String returns true or false.
func (v *boolValue) String() string { return strconv.FormatBool(v.on) }

// Set parses true or false.
func (v *boolValue) Set(text string) (err error) {
	*v.given = true
	v.on, err = strconv.ParseBool(text)
	return err
}

// IsBoolFlag says that the flag needs no value.
func (v *boolValue) IsBoolFlag() bool { return true }

type stringSliceValue struct {
	list  []string
	set   bool // the default is replaced
	given *bool
}

// String joins the list.
func (v *stringSliceValue) String() string { return strings.Join(v.list, ",") }

// Set appends to the list. The first one replaces the default.
func (v *stringSliceValue) Set(text string) error {
	if !v.set {
		v.list, v.set = nil, true
	}
	v.list, *v.given = append(v.list, strings.Split(text, ",")...), true
	return nil
}

type mapValue struct {
	pairs map[string]string
	given *bool
}

// String returns the pairs by name.
func (v *mapValue) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(v.pairs)) {
		out = append(out, name+"="+v.pairs[name])
	}
	return strings.Join(out, ",")
}

// Set adds one pair. The value may have commas.
func (v *mapValue) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("malformed pair, expect string=string")
	}
	if v.pairs == nil {
		v.pairs = map[string]string{}
	}
	v.pairs[strings.TrimSpace(name)], *v.given = strings.TrimSpace(value), true
	return nil
}

// arrayValue is a flag that may be given several times. A value may have commas.
type arrayValue []string

// String joins the values.
func (v *arrayValue) String() string { return strings.Join(*v, ",") }

// Set adds a value.
func (v *arrayValue) Set(text string) error {
	*v = append(*v, text)
	return nil
}
