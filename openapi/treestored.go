package openapi

import "slices"

// Breach is a set of rules for schema documents that kube-apiserver did not have from the beginning.
// A stored definition may break them, and may go on to do so when it is updated: otherwise nobody
// could change anything else about it.
type Breach uint8

const (
	strangeTypes     Breach = 1 << iota // a type that there is not
	unprunedDefaults                    // a default with fields that the schema does not have
	deepSets                            // a set with items that merge in parts
	looseKeys                           // items or keys of a list that may be missing

	// AnyBreach are all of these rules, for documents that have been accepted.
	AnyBreach = strangeTypes | unprunedDefaults | deepSets | looseKeys
)

func (b Breach) has(rule Breach) bool { return b&rule != 0 }

// Breaches returns the rules that the schemas of a stored definition break. The schemas of all
// versions count together.
//
// Source: CRD-14.
func Breaches(documents ...map[string]any) (broken Breach) {
	for _, document := range documents {
		_, r := TreeReader{}.read(document)
		broken |= r.broken
	}
	return broken
}

// breaks records that the document breaks a rule, and reports whether that is a problem.
func (r *treeRules) breaks(rule Breach) bool {
	r.broken |= rule
	return !r.Stored.has(rule)
}

// UnknownFormats returns the formats in a document that have no effect, in the order in which they
// are found. kube-apiserver warns of them, each time anew: `unrecognized format "x"`.
//
// Source: CRD-10.
func UnknownFormats(document map[string]any) (formats []string) {
	if !mayHaveUnknownFormat(document) {
		return nil
	}
	reader := treeReader{}
	reader.node(document).each(func(n *node) bool {
		if format := n.schema.Format; format != "" && !knownFormat(n.typ, format) {
			formats = append(formats, format)
		}
		return true
	})
	return formats
}

// mayHaveUnknownFormat reports whether any object in a value looks like a schema with a format that has
// no effect. Most documents have none, and are not read to find that out.
func mayHaveUnknownFormat(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if format, _ := v["format"].(string); format != "" {
			if typ, _ := v["type"].(string); !knownFormat(typ, format) {
				return true
			}
		}
		for _, below := range v {
			if mayHaveUnknownFormat(below) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, mayHaveUnknownFormat)
	}
	return false
}

// knownFormat reports whether a format has an effect on values of a type.
func knownFormat(typ, format string) bool {
	switch typ {
	case "integer":
		return format == "int32" || format == "int64"
	case "number":
		return format == "float" || format == "double"
	case "", "string":
		return format == "password" || checkOfFormat(format) != nil
	}
	return false
}
