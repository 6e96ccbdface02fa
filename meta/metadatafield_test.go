package meta_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// A field that is added to ObjectMeta needs a line in the table of rules.
func TestEveryMetadataFieldHasItsRules(t *testing.T) {
	var names []string
	for field := range reflect.TypeFor[meta.ObjectMeta]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	require.Equal(t, names, meta.MetadataFields(0))
	for _, rule := range []meta.MetadataRule{meta.IdentifiesObject, meta.SetByServer, meta.KeptOnUpdate, meta.NeverOwned, meta.Bookkeeping} {
		for _, name := range names {
			require.Equal(t, meta.MetadataRulesOf(name)&rule == rule, strings.Contains(strings.Join(meta.MetadataFields(rule), " ")+" ", name+" "), name)
		}
	}
	require.Zero(t, meta.MetadataRulesOf("spec"))
}

func TestMetadataFieldsByRule(t *testing.T) {
	require.Equal(t, []string{"name", "namespace", "uid", "resourceVersion"}, meta.MetadataFields(meta.IdentifiesObject))
	require.Equal(t, []string{"selfLink", "uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"},
		meta.MetadataFields(meta.SetByServer))
	require.Equal(t, []string{"uid"}, meta.MetadataFields(meta.IdentifiesObject|meta.SetByServer))
	require.Subset(t, meta.MetadataFields(meta.KeptOnUpdate), meta.MetadataFields(meta.SetByServer), "only the server sets them")
}
