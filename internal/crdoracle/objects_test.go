package crdoracle

import (
	"encoding/json"
	"flag"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var (
	cases  = flag.Int("cases", 2000, "number of generated objects")
	seed   = flag.Uint64("seed", 1, "seed of the generator")
	corpus = flag.String("corpus", "", "directory of definitions that command collect has written")
)

const objectsPerSchema = 10

// Kubernetes' code and ours make the same of generated objects.
//
// Source: CRD-08, CRD-09, CRD-11 to CRD-13.
func TestGeneratedObjects(t *testing.T) {
	var differences report
	accepted, refused := 0, 0
	for stream := uint64(0); accepted < *cases; stream++ {
		g := newGenerator(*seed, stream)
		document := g.document()
		text, err := json.Marshal(document)
		require.NoError(t, err)
		theirs, theirProblems, err := newKubernetes(text)
		require.NoError(t, err)
		ours, ourProblems, err := newKindwright(text)
		require.NoError(t, err)
		if !sameProblems(theirProblems, ourProblems) && !explained(document, judgedAlike) {
			differences.add("document", "%s instead of %s under %s", ourProblems, theirProblems, text)
		}
		if len(theirProblems)+len(ourProblems) > 0 {
			refused++
			continue
		}
		for range objectsPerSchema {
			compareObjects(t, &differences, g, document, theirs, ours)
			accepted++
		}
	}
	t.Logf("%d objects, %d refused documents", accepted, refused)
	differences.require(t)
}

// judgedAlike reports whether both sides say the same about a schema.
func judgedAlike(document map[string]any) bool {
	text, err := json.Marshal(document)
	if err != nil {
		return false
	}
	_, theirs, err := newKubernetes(text)
	if err != nil {
		return false
	}
	_, ours, err := newKindwright(text)
	return err == nil && sameProblems(theirs, ours)
}

// sameProblems compares the fields that the problems of a document name. Kubernetes reports a
// default several times if several of its parts are wrong.
func sameProblems(theirs, ours []cause) bool {
	places := func(causes []cause) (out []string) {
		for _, c := range causes {
			field := bracketed.ReplaceAllString(c.field, ".$1")
			if before, _, ok := strings.Cut(field, ".default"); ok {
				field = before + ".default"
			}
			out = append(out, field)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(places(slices.DeleteFunc(theirs, refusedDefault)), places(slices.DeleteFunc(ours, refusedFormat)))
}

// compareObjects makes two objects and compares the creation of both, and their update.
func compareObjects(t *testing.T, differences *report, g generator, document map[string]any, theirs *kubernetes, ours *kindwright) {
	t.Helper()
	odds := pick(g, 0, 2, 5, 20)
	old := g.objectOf(document, odds)
	next := g.objectOf(document, odds)
	if g.chance(70) {
		next = g.identified(g.changed(old, document, odds))
	}
	schema, _ := json.Marshal(document)
	pair := [2]stored{}
	for i, object := range []any{old, next} {
		body, err := json.Marshal(object)
		require.NoError(t, err)
		their, refused := theirs.conform(body)
		our, err := ours.conform(body)
		require.NoError(t, err)
		if refused != nil {
			if field := bracketed.ReplaceAllString(refusal(refused), ".$1"); !slices.ContainsFunc(ours.create(our), func(c cause) bool { return belowAny([]string{field}, bracketed.ReplaceAllString(c.field, ".$1")) }) {
				differences.add("object accepted", "%v: %s under %s", refused, body, schema)
			}
			want, got := decodingText(refused.Error()), decodingText(ours.schema.Undecodable(our))
			if want != got && !theirs.refuses(body, got) {
				differences.add("decoding", "%s instead of %s: %s under %s", got, want, body, schema)
			}
			return
		}
		if text(their) != text(our) {
			differences.add("object", "%s becomes %s instead of %s under %s", body, text(our), text(their), schema)
			return
		}
		pair[i].theirs, pair[i].ours = their, our
		missing, added := compare(theirs.create(their), ours.create(our))
		if len(missing)+len(added) > 0 && !explained(document, createdAlike(their)) {
			note(differences, "create", missing, added, body, schema)
		}
	}
	missing, added := compareUpdate(theirs, ours, document, pair[0], pair[1])
	if len(missing)+len(added) > 0 && !explained(document, updatedAlike(pair[0], pair[1])) {
		both, err := json.Marshal([]any{pair[0].theirs, pair[1].theirs})
		require.NoError(t, err)
		note(differences, "update", missing, added, both, schema)
	}
}

// stored is an object as both sides store it.
type stored struct{ theirs, ours map[string]any }

// compareUpdate compares what both sides say about an update.
func compareUpdate(theirs *kubernetes, ours *kindwright, document map[string]any, old, next stored) (missing, added []cause) {
	ratcheted, others := theirs.update(next.theirs, old.theirs)
	said := ours.update(next.ours, old.ours)
	missing, added = compare(slices.Concat(ratcheted, others), said)
	missing = slices.DeleteFunc(missing, func(c cause) bool {
		isRatcheted := slices.ContainsFunc(ratcheted, func(r cause) bool { return kubernetesQuirk(r) == c })
		return isRatcheted && (unchanged(c.field, old.theirs, next.theirs) || inUnkeyed(c.field, document, old.theirs, next.theirs))
	})
	added = slices.DeleteFunc(added, func(c cause) bool {
		// A keyed list with an item twice in place of another is no unchanged list, see TestIntended.
		return slices.ContainsFunc(others, func(o cause) bool { return o.typ == "FieldValueDuplicate" && belowAny([]string{c.field}, o.field) })
	})
	inside := nearestBranch(ratcheted, said, ours.create(next.ours))
	return slices.DeleteFunc(missing, inside), slices.DeleteFunc(added, inside)
}

// refuses reports whether Kubernetes ever says a sentence about a body. If several fields cannot be
// decoded, it names any of them.
func (k *kubernetes) refuses(body []byte, sentence string) bool {
	for range 100 {
		if _, err := k.conform(body); err != nil && decodingText(err.Error()) == sentence {
			return true
		}
	}
	return false
}

// decodingText returns a sentence about an embedded object without its metadata, where we have dropped
// null already.
func decodingText(sentence string) string {
	sentence = unescape.Replace(sentence)
	return bracketed.ReplaceAllString(shownMetadata.ReplaceAllString(sentence, ""), ".$1")
}

var shownMetadata = regexp.MustCompile(`\{.*\}: `)

func note(differences *report, verb string, missing, added []cause, body, schema []byte) {
	for _, c := range missing {
		differences.add(verb+" lacks "+c.typ+" "+shape(c.message), "%s for %s under %s", c, body, schema)
	}
	for _, c := range added {
		differences.add(verb+" adds "+c.typ+" "+shape(c.message), "%s for %s under %s", c, body, schema)
	}
}

// objectOf returns an object of the kind of a document.
func (g generator) objectOf(document map[string]any, odds int) any {
	object, ok := g.value(document, 0).(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	if odds > 0 {
		object, _ = g.objectValue(document, odds).(map[string]any)
	}
	return g.identified(object)
}

// identified gives an object the fields that every object has.
func (g generator) identified(of any) any {
	object, _ := of.(map[string]any)
	// Two objects never have the same version, nor the same field managers.
	object["metadata"] = map[string]any{"name": "a", "resourceVersion": strconv.Itoa(g.IntN(1 << 30))}
	object["apiVersion"], object["kind"] = "example.com/v1", "Thing"
	return object
}

// changed returns an object with one field of another value.
func (g generator) changed(object any, document map[string]any, odds int) any {
	text, err := json.Marshal(object)
	if err != nil {
		return object
	}
	var out map[string]any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return object
	}
	properties, _ := document["properties"].(map[string]any)
	names := slices.Sorted(keys(properties))
	if len(names) == 0 {
		return out
	}
	name := pick(g, names...)
	s := properties[name].(map[string]any)
	if inner, ok := out[name].(map[string]any); ok && g.chance(60) && s["properties"] != nil {
		out[name] = g.changed(inner, s, odds)
	} else {
		out[name] = g.value(s, odds)
	}
	return out
}

// unchanged reports whether a field is in a part of an object that an update does not change.
func unchanged(field string, old, object any) bool {
	for _, name := range strings.Split(field, ".") {
		name, index, isItem := strings.Cut(name, "[")
		before, isObject := old.(map[string]any)
		after, both := object.(map[string]any)
		if !isObject || !both {
			return false
		}
		old, object = before[name], after[name]
		if reflect.DeepEqual(old, object) {
			return true
		}
		if !isItem {
			continue
		}
		list, _ := old.([]any)
		items, _ := object.([]any)
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		return err == nil && i < len(items) && slices.ContainsFunc(list, func(item any) bool { return reflect.DeepEqual(item, items[i]) })
	}
	return false
}
