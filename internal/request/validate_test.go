package request_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// causes returns field and text of each cause of a 422 on an options kind.
func causes(t *testing.T, err error, kind string) []string {
	t.Helper()
	require.Error(t, err)
	s := status.From(err).Status()
	require.EqualValues(t, 422, s.Code, s.Message)
	require.Equal(t, meta.ReasonInvalid, s.Reason)
	require.Equal(t, kind, s.Details.Kind)
	require.Equal(t, "meta.k8s.io", s.Details.Group)
	require.Empty(t, s.Details.Name)
	var out []string
	for _, c := range s.Details.Causes {
		out = append(out, string(c.Type)+" "+c.Field+": "+c.Message)
	}
	return out
}

const (
	needsVersion = "FieldValueForbidden resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
	notExactZero = `FieldValueForbidden resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`
	notContinue  = "FieldValueForbidden resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
)

func TestLIST_ValidateTable(t *testing.T) {
	for id, c := range map[string]struct {
		query string
		want  []string // nil: accepted
	}{
		"LIST-01": {"", nil}, "LIST-02": {"resourceVersion=0", nil}, "LIST-03": {"resourceVersion=7", nil},
		"LIST-04": {"limit=2", nil}, "LIST-05": {"limit=2&resourceVersion=0", nil}, "LIST-06": {"limit=2&resourceVersion=7", nil},
		"LIST-07": {"limit=2&continue=t", nil}, "LIST-08": {"limit=2&continue=t&resourceVersion=0", nil},
		"LIST-10": {"resourceVersionMatch=Exact", []string{needsVersion}},
		"LIST-11": {"resourceVersionMatch=Exact&resourceVersion=0", []string{notExactZero}},
		"LIST-12": {"resourceVersionMatch=Exact&resourceVersion=7", nil},
		"LIST-13": {"limit=2&resourceVersionMatch=Exact", []string{needsVersion}},
		"LIST-14": {"limit=2&resourceVersionMatch=Exact&resourceVersion=0", []string{notExactZero}},
		"LIST-15": {"limit=2&resourceVersionMatch=Exact&resourceVersion=7", nil},
		"LIST-16": {"resourceVersionMatch=NotOlderThan", []string{needsVersion}},
		"LIST-17": {"resourceVersionMatch=NotOlderThan&resourceVersion=0", nil},
		"LIST-18": {"resourceVersionMatch=NotOlderThan&resourceVersion=7", nil},
		"LIST-19": {"limit=2&resourceVersionMatch=NotOlderThan", []string{needsVersion}},
		"LIST-20": {"limit=2&resourceVersionMatch=NotOlderThan&resourceVersion=0", nil},
		"LIST-21": {"limit=2&resourceVersionMatch=NotOlderThan&resourceVersion=7", nil},
		"LIST-22": {"resourceVersionMatch=NotOlderThan&resourceVersion=", []string{needsVersion}},
		"READ-24": {"continue=t&resourceVersionMatch=Exact&resourceVersion=7", []string{notContinue}},
		"QUERY-03 unknown": {"resourceVersionMatch=Foo&resourceVersion=1", []string{
			`FieldValueNotSupported resourceVersionMatch: Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", ""`,
		}},
		"LIST-35 both": {"resourceVersionMatch=Exact&continue=t", []string{needsVersion, notContinue}},
		"READ-05 initial events": {"sendInitialEvents=true", []string{
			"FieldValueForbidden sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
		}},
	} {
		t.Run(id, func(t *testing.T) {
			err := query(t, "GET "+W+"?"+c.query).ValidateList()
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.want, causes(t, err, "ListOptions"))
		})
	}
}

func TestLIST_09_ERR_01_ContinueWithVersion(t *testing.T) {
	q := query(t, "GET "+W+"?limit=2&continue=t&resourceVersion=7")
	require.NoError(t, q.ValidateList(), "a token that is not valid is reported first")
	err := q.ValidateContinue()
	require.EqualError(t, err, "specifying resource version is not allowed when using continue")
	require.Equal(t, meta.ReasonBadRequest, status.ReasonOf(err))
}

func TestDEL_07_READ_05_CollectionDelete(t *testing.T) {
	q := query(t, "DELETE "+W+"?sendInitialEvents=true&resourceVersion=7&resourceVersionMatch=Exact&limit=2&timeoutSeconds=3")
	require.NoError(t, q.ValidateList())
	require.Error(t, query(t, "DELETE "+W+"?resourceVersionMatch=Exact").ValidateList())
}

func TestWLIST_08_W11_ValidateWatch(t *testing.T) {
	const (
		needsEvents = "FieldValueForbidden resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
		needsMatch  = "FieldValueForbidden resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
		onlyNewer   = `FieldValueNotSupported resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"`
	)
	watch := func(q string) request.Query { return query(t, "GET "+W+"?watch=1&"+q) }
	for q, want := range map[string][]string{
		"resourceVersionMatch=NotOlderThan":                                   {needsEvents},
		"resourceVersionMatch=Exact":                                          {needsEvents, onlyNewer},
		"sendInitialEvents=true":                                              {needsMatch},
		"sendInitialEvents=false&resourceVersion=3":                           {needsMatch},
		"sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=3": {needsMatch, onlyNewer},
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=t": {notContinue},
	} {
		require.Equal(t, want, causes(t, watch(q).ValidateWatch(true), "ListOptions"), q)
	}
	for _, q := range []string{
		"", "resourceVersion=5", "allowWatchBookmarks=1", "continue=t",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=5",
	} {
		require.NoError(t, watch(q).ValidateWatch(true), q)
	}
}

func TestWLIST_01_GateOffIsAnError(t *testing.T) {
	q := query(t, "GET "+W+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	require.Equal(t, []string{
		"FieldValueForbidden sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
	}, causes(t, q.ValidateWatch(false), "ListOptions"))
	require.NoError(t, query(t, "GET "+W+"?watch=1").ValidateWatch(false))
}

// write is a request that writes, with its options kind and the method that checks it.
type write struct {
	line, kind string
	validate   func(request.Query) error
}

var edits = []write{edit("POST "+W, "CreateOptions"), edit("PUT "+W+"/x", "UpdateOptions"), edit("PATCH "+W+"/x", "PatchOptions")}

func edit(line, kind string) write {
	return write{line, kind, func(q request.Query) error { return q.ValidateWrite(kind) }}
}

func TestDRY_07_OnlyAll(t *testing.T) {
	writes := append(slices.Clone(edits), write{"DELETE " + W + "/x", "DeleteOptions", request.Query.ValidateDelete},
		write{"DELETE " + W, "DeleteOptions", request.Query.ValidateDelete})
	for _, e := range writes {
		require.NoError(t, e.validate(query(t, e.line+"?dryRun=All")))
		for _, v := range []string{"Foo", "", "all", "true"} {
			q := query(t, e.line+"?dryRun="+v)
			require.Equal(t, []string{`FieldValueNotSupported dryRun: Unsupported value: "` + v + `": supported values: "All"`}, causes(t, e.validate(q), e.kind))
			require.True(t, q.IsDryRun(), "whoever forgets to validate does not write")
		}
		require.Error(t, e.validate(query(t, e.line+"?dryRun=All&dryRun=Foo")))
	}
}

func TestQUERY_13_FieldManager(t *testing.T) {
	for _, e := range edits {
		require.NoError(t, e.validate(query(t, e.line+"?fieldManager="+strings.Repeat("m", 128))))
		require.NoError(t, e.validate(query(t, e.line+"?fieldManager=k%C3%A9+x")))
		require.Equal(t, []string{"FieldValueTooLong fieldManager: Too long: may not be more than 128 bytes"},
			causes(t, e.validate(query(t, e.line+"?fieldManager="+strings.Repeat("m", 129))), e.kind))
		require.Equal(t, []string{`FieldValueInvalid fieldManager: Invalid value: "a\nb": invalid character U+000A (at position 1)`},
			causes(t, e.validate(query(t, e.line+"?fieldManager=a%0Ab")), e.kind))
	}
}

func TestQUERY_14_23_FieldValidation(t *testing.T) {
	for _, e := range edits {
		for _, v := range []string{"", "Ignore", "Warn", "Strict"} {
			require.NoError(t, e.validate(query(t, e.line+"?fieldValidation="+v)))
		}
		require.Equal(t, []string{`FieldValueNotSupported fieldValidation: Unsupported value: "strict": supported values: "Ignore", "Warn", "Strict", ""`},
			causes(t, e.validate(query(t, e.line+"?fieldValidation=strict")), e.kind))
	}
}

func TestDEL_10_12_DeleteOptions(t *testing.T) {
	for _, v := range []string{"Orphan", "Background", "Foreground"} {
		require.NoError(t, query(t, "DELETE "+W+"/x?propagationPolicy="+v).ValidateDelete())
	}
	require.Len(t, causes(t, query(t, "DELETE "+W+"/x?propagationPolicy=").ValidateDelete(), "DeleteOptions"), 1)
	require.Equal(t, []string{
		`FieldValueNotSupported propagationPolicy: Unsupported value: "orphan": supported values: "Foreground", "Background", "Orphan", "nil"`,
	}, causes(t, query(t, "DELETE "+W+"/x?propagationPolicy=orphan").ValidateDelete(), "DeleteOptions"))
	require.Len(t, causes(t, query(t, "DELETE "+W+"/x?propagationPolicy=Orphan&orphanDependents=true").ValidateDelete(), "DeleteOptions"), 1)
	require.NoError(t, query(t, "DELETE "+W+"/x?orphanDependents=true").ValidateDelete())
}

func TestMODEL_03_GroupDomain(t *testing.T) {
	info, err := request.NewParser("", "example.org").Parse(receive(t, "POST "+W+"?dryRun=x"))
	require.NoError(t, err)
	require.Equal(t, "meta.example.org", status.From(info.Query.ValidateWrite("CreateOptions")).Status().Details.Group)
}

// kube-apiserver says all that is wrong with the options of a patch, what its type forbids first.
func TestSSA_02_SSA_30_AllThatIsWrongWithThePatchOptions(t *testing.T) {
	const rest = "dryRun=x&fieldValidation=y"
	for _, c := range []struct {
		query string
		apply bool
		want  []string
	}{
		{"force=true&fieldManager=a%09&" + rest, false, []string{"force", "fieldManager", "dryRun", "fieldValidation"}},
		{rest, true, []string{"fieldManager", "dryRun", "fieldValidation"}},
		{"force=true&fieldManager=a&" + rest, true, []string{"dryRun", "fieldValidation"}},
	} {
		var fields []string
		for _, cause := range causes(t, query(t, "PATCH "+W+"/w?"+c.query).ValidatePatch(c.apply), "PatchOptions") {
			_, cause, _ = strings.Cut(cause, " ")
			field, _, _ := strings.Cut(cause, ":")
			fields = append(fields, field)
		}
		require.Equal(t, c.want, fields, c.query)
	}
	require.NoError(t, query(t, "PATCH "+W+"/w?force=true&fieldManager=a").ValidatePatch(true))
	require.NoError(t, query(t, "PATCH "+W+"/w").ValidatePatch(false))
}

// A name of a field manager is checked character by character, as in kube-apiserver.
func TestSSA_23_CharactersOfFieldManagers(t *testing.T) {
	err := query(t, "POST "+W+"?fieldManager=a%0Ab%C2%85").ValidateWrite("CreateOptions")
	require.Equal(t, []string{
		`FieldValueInvalid fieldManager: Invalid value: "a\nb\u0085": invalid character U+000A (at position 1)`,
		`FieldValueInvalid fieldManager: Invalid value: "a\nb\u0085": invalid character U+0085 (at position 3)`,
	}, causes(t, err, "CreateOptions"))
	err = query(t, "POST "+W+"?fieldManager="+strings.Repeat("%0A", 1000)).ValidateWrite("CreateOptions")
	require.Len(t, causes(t, err, "CreateOptions"), 1, "one that is too long is not listed character by character")
}

func TestDEL_12_WordsAboutTwoPolicies(t *testing.T) {
	err := query(t, "DELETE "+W+"/w?orphanDependents=true&propagationPolicy=Orphan").ValidateDelete()
	require.Equal(t, []string{
		`FieldValueInvalid propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set`,
	}, causes(t, err, "DeleteOptions"))
}
