package request_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func ptr[T any](v T) *T { return &v }

func query(t *testing.T, line string) request.Query { return mustParse(t, line).Query }

func TestQUERY_01_Watch(t *testing.T) {
	for value, want := range map[string]bool{"1": true, "true": true, "True": true, "0": false, "false": false, "FALSE": false, "": true, "yes": true} {
		info := mustParse(t, "GET "+W+"?watch="+value)
		require.Equal(t, want, info.Query.Watch, value)
		require.Equal(t, want, info.Verb == request.VerbWatch, value)
	}
	require.True(t, query(t, "GET "+W+"?watch").Watch, "QUERY-18: a name without a value is true")
	require.False(t, query(t, "POST "+W+"?watch=1").Watch)
}

func TestQUERY_02_to_10_Reading(t *testing.T) {
	q := query(t, "GET "+W+"?resourceVersion=5&resourceVersionMatch=Exact&limit=2&continue=tok%3D&fieldSelector=metadata.name%3Da"+
		"&labelSelector=app+in+(a,b)&timeoutSeconds=7&timeout=1m&pretty=true&includeObject=None")
	require.Equal(t, "5", q.ResourceVersion)
	require.Equal(t, "Exact", q.ResourceVersionMatch)
	require.EqualValues(t, 2, q.Limit)
	require.Equal(t, "tok=", q.Continue)
	require.Equal(t, "metadata.name=a", q.FieldSelector.String())
	require.True(t, q.LabelSelector.Matches(meta.LabelMap{"app": "b"}))
	require.False(t, q.LabelSelector.Matches(meta.LabelMap{"app": "c"}))
	require.Equal(t, ptr[int64](7), q.TimeoutSeconds)
	require.Equal(t, time.Minute, q.Timeout)
	require.Equal(t, ptr(true), q.Pretty)
	require.Equal(t, "None", q.IncludeObject)
	require.Equal(t, "7", q.Raw.Get("timeoutSeconds"))

	q = query(t, "GET "+W+"?watch=1&allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=")
	require.True(t, q.AllowWatchBookmarks)
	require.Equal(t, ptr(true), q.SendInitialEvents)
	require.Empty(t, q.ResourceVersion)
	require.Nil(t, query(t, "GET "+W+"?watch=1").SendInitialEvents)
	require.Equal(t, ptr(false), query(t, "GET "+W+"?watch=1&sendInitialEvents=false").SendInitialEvents)
}

func TestQUERY_12_to_17_Writing(t *testing.T) {
	edit := "dryRun=All&fieldManager=me&fieldValidation=Strict"
	for _, line := range []string{"POST " + W, "PUT " + W + "/x", "PATCH " + W + "/x"} {
		q := query(t, line+"?"+edit+"&force=true")
		require.Equal(t, []string{"All"}, q.DryRun)
		require.True(t, q.IsDryRun())
		require.Equal(t, "me", q.FieldManager)
		require.Equal(t, "Strict", q.FieldValidation)
		require.Equal(t, strings.HasPrefix(line, "PATCH"), q.Force != nil)
	}
	for _, line := range []string{"DELETE " + W, "DELETE " + W + "/x"} {
		q := query(t, line+"?dryRun=All&gracePeriodSeconds=-1&propagationPolicy=Orphan&orphanDependents=0&uid=u1")
		require.True(t, q.IsDryRun())
		require.Equal(t, ptr[int64](-1), q.GracePeriodSeconds)
		require.Equal(t, "Orphan", q.PropagationPolicy)
		require.Equal(t, ptr(false), q.OrphanDependents)
		require.Equal(t, "u1", q.PreconditionUID)
	}
	require.False(t, query(t, "GET "+W+"?dryRun=All").IsDryRun())
}

func TestQUERY_18_UnknownAndElsewhereIgnored(t *testing.T) {
	q := query(t, "GET "+W+"/x?foo=bar&foo=baz&limit=x&labelSelector=%21%21&gracePeriodSeconds=x&timeoutSeconds=x")
	require.Equal(t, url.Values{
		"foo": {"bar", "baz"}, "limit": {"x"}, "labelSelector": {"!!"}, "gracePeriodSeconds": {"x"}, "timeoutSeconds": {"x"},
	}, q.Raw)
	require.Zero(t, q.Limit)
	require.True(t, q.LabelSelector.Empty())
	query(t, "POST "+W+"?resourceVersion=abc&watch=x")
	query(t, "GET /healthz?verbose&exclude=a&exclude=b&limit=x&export=true")
	query(t, "GET "+W+"?watch=1&timeout=soon") // the parameter is not for watches (QUERY-22)
}

func TestQUERY_18_MalformedIntegers(t *testing.T) {
	for _, v := range []string{"x", "", "%2B5", "+5", "5+", "05", "-0", "1e3", "0x10", "1.0", "9223372036854775808", "-9223372036854775809", "%D9%A1"} {
		for line, name := range map[string]string{
			"GET " + W: "limit", "DELETE " + W: "timeoutSeconds", "DELETE " + W + "/x": "gracePeriodSeconds",
		} {
			require.Contains(t, refused(t, 400, line+"?"+name+"="+v), name)
		}
	}
}

func TestQuery_WhatNetURLWouldDrop(t *testing.T) {
	for _, line := range []string{"DELETE " + W, "GET " + W, "GET " + W + "/x", "POST " + W, "PUT " + W + "/x", "PATCH " + W + "/x", "GET /healthz", "GET /"} {
		for _, bad := range []string{
			"labelSelector=a;b", ";", "a=1;labelSelector=b", "labelSelector=%zz", "labelSelector=%", "labelSelector=%4",
			"%zz=1", "labelSelector=%ff", "%ff=a", "labelSelector=a%C0%80",
		} {
			refused(t, 400, line+"?"+bad)
		}
	}
	require.Equal(t, "a;b", query(t, "GET "+W+"/x?q=a%3Bb").Raw.Get("q"))
	require.EqualValues(t, 1, query(t, "GET "+W+"?&limit=1&&").Limit)
}

func TestQuery_RepeatedParameters(t *testing.T) {
	require.EqualValues(t, 1, query(t, "GET "+W+"?limit=1&limit=1").Limit)
	for _, q := range []string{"limit=1&limit=2", "labelSelector=a&labelSelector=b", "watch=1&watch=0", "resourceVersion=1&resourceVersion=", "fieldSelector=&fieldSelector=a%3Db"} {
		require.Contains(t, refused(t, 400, "GET "+W+"?"+q), "different values")
	}
	require.Equal(t, []string{"All", "All"}, query(t, "POST "+W+"?dryRun=All&dryRun=All").DryRun)
}

func TestQuery_ExportIsRefused(t *testing.T) {
	for _, line := range []string{"GET " + W + "/x", "GET " + W, "GET " + W + "?watch=1&x=", "POST " + W} {
		sep := "?"
		if strings.Contains(line, "?") {
			sep = "&"
		}
		require.Contains(t, refused(t, 400, line+sep+"export=true"), "export")
		query(t, line+sep+"export=false") // which asks for nothing
	}
}

func TestQUERY_19_20_SelectorErrors(t *testing.T) {
	for _, line := range []string{"GET " + W, "GET " + W + "?watch=1", "DELETE " + W} {
		sep := "?"
		if strings.Contains(line, "?") {
			sep = "&"
		}
		for _, bad := range []string{"a+in+(", "%21%21a", "a+b", "%3D", "a+in+b", "a%0A%3D%3D%3Db"} {
			require.Contains(t, refused(t, 400, line+sep+"labelSelector="+bad), "unable to parse requirement")
		}
		refused(t, 400, line+sep+"fieldSelector=metadata.name")
	}
}

func TestW5_SelectorsOfAMiB(t *testing.T) {
	list := strings.Repeat("v,", 100_000)
	for _, selector := range []string{"a in (" + list + "v)", strings.Repeat("(", 10_000), strings.Repeat("a", 1<<19) + "=b", strings.Repeat("a=b,", 50_000) + "("} {
		r := receive(t, "GET "+W)
		r.URL.RawQuery = "labelSelector=" + url.QueryEscape(selector)
		if info, err := request.Parse(r, ""); err != nil {
			require.Equal(t, 400, status.CodeOf(err))
		} else {
			require.False(t, info.Query.LabelSelector.Empty(), "an unreadable selector is never everything")
		}
	}
}

func TestQUERY_21_Pretty(t *testing.T) {
	yes, no := true, false
	for query, want := range map[string]*bool{"": nil, "?pretty=false": &no, "?pretty=0": &no, "?pretty=true": &yes, "?pretty": &yes} {
		require.Equal(t, want, mustParse(t, "GET "+W+query).Query.Pretty, query)
		require.Equal(t, want, mustParse(t, "GET /apis"+query).Query.Pretty, query)
	}
}

func TestQUERY_22_Timeout(t *testing.T) {
	require.Equal(t, time.Second, query(t, "GET "+W+"/x?timeout=1s").Timeout)
	require.Equal(t, time.Second, query(t, "POST "+W+"?timeout=1s").Timeout)
	require.Zero(t, query(t, "GET "+W+"/x?timeout=").Timeout)
	for _, v := range []string{"x", "1", "-1s", "1s2", "99999999999h", "%20"} {
		require.Contains(t, refused(t, 400, "GET "+W+"/x?timeout="+v), "invalid timeout specified in the request URL")
	}
}

func TestGET_07_W1_ResourceVersion(t *testing.T) {
	bad := []string{"-1", "18446744073709551616", "0x10", "%2B5", "+5", "%205", "05", "00", "1e3", "%D9%A1", "5,6", "abc", "5%0A"}
	for _, line := range []string{"GET " + W + "/x?", "GET " + W + "?", "GET " + W + "?watch=1&", "DELETE " + W + "?"} {
		for _, v := range bad {
			refusedVersion(t, line+"resourceVersion="+v)
		}
		for _, v := range []string{"", "0", "5", "18446744073709551615"} {
			require.Equal(t, v, query(t, line+"resourceVersion="+v).ResourceVersion)
		}
	}
	r := receive(t, "GET "+W)
	r.URL.RawQuery = "resourceVersion=" + strings.Repeat("1", 1<<20-20)
	info, err := request.Parse(r, "")
	require.NoError(t, err)
	err = info.Query.ValidateList()
	require.Equal(t, 400, status.CodeOf(err))
	require.Less(t, len(err.Error()), 200, "the message does not repeat a MiB")
}

// refusedVersion checks that a request line is refused for its version: a list when its options are
// validated as a whole, because resourceVersionMatch is checked first (LIST-35).
func refusedVersion(t *testing.T, line string) {
	t.Helper()
	info, err := parse(t, line)
	if err == nil {
		err = info.Query.ValidateList()
	}
	require.Equal(t, 400, status.CodeOf(err), line)
	require.ErrorContains(t, err, "invalid resource version: resourceVersion: Invalid value: ", line)
}

func TestW4_PAGE_10_Numbers(t *testing.T) {
	require.Zero(t, query(t, "GET "+W+"?limit=-1").Limit)
	require.Zero(t, query(t, "GET "+W+"?limit=0").Limit)
	refused(t, 400, "GET "+W+"?limit=9223372036854775808")
	for _, watch := range []string{"", "&watch=1"} {
		refused(t, 400, "GET "+W+"?timeoutSeconds=-1"+watch)
		require.Nil(t, query(t, "GET "+W+"?timeoutSeconds=0"+watch).TimeoutSeconds)
		require.EqualValues(t, request.MaxTimeoutSeconds, *query(t, "GET "+W+"?timeoutSeconds=99999999999"+watch).TimeoutSeconds)
	}
	require.Positive(t, time.Duration(request.MaxTimeoutSeconds)*time.Second, "no overflow")
}

func TestH7_VolumeOfTheQuery(t *testing.T) {
	r := receive(t, "GET "+W)
	r.URL.RawQuery = strings.Repeat("a=b&", 100_000)
	_, err := request.Parse(r, "")
	require.Equal(t, 400, status.CodeOf(err))
	r.URL.RawQuery = "a=" + strings.Repeat("b", request.MaxQueryBytes)
	_, err = request.Parse(r, "")
	require.Equal(t, 400, status.CodeOf(err))
	r.URL.RawQuery = strings.Repeat("a=b&", request.MaxParameters-1)
	_, err = request.Parse(r, "")
	require.NoError(t, err)
}

func TestLIST_36_NameFromSelector(t *testing.T) {
	for _, watch := range []string{"", "&watch=1"} {
		name := func(selector string) string {
			return mustParse(t, "GET "+W+"?fieldSelector="+url.QueryEscape(selector)+watch).Name
		}
		require.Equal(t, "x", name("metadata.name=x"))
		require.Equal(t, "x", name("metadata.name==x,spec.owner=y"))
		require.Empty(t, name("metadata.name!=x"))
		require.Empty(t, name("spec.owner=x"))
	}
	info := mustParse(t, "GET "+W+"?fieldSelector=metadata.name%3Dx")
	require.True(t, info.IsCollection())
	require.Empty(t, mustParse(t, "DELETE "+W+"?fieldSelector=metadata.name%3Dx").Name, "a collection delete is not authorized by one name")
}

func TestP9_SelectorValuesAreNotPaths(t *testing.T) {
	for _, watch := range []string{"", "&watch=1"} {
		for _, v := range []string{"../gadgets/g1", "..", ".", "a/b", "a%b", "", "a\nb", "\xff"} {
			line := "GET /apis/example.dev/v1/widgets?fieldSelector=metadata.name%3D" + url.QueryEscape(v) + watch
			info, err := parse(t, line)
			if err != nil {
				require.Equal(t, 400, status.CodeOf(err))
				continue
			}
			require.Empty(t, info.Name)
			require.Equal(t, "widgets", info.Resource)
			got, ok := info.Query.FieldSelector.Exact("metadata.name")
			require.True(t, ok)
			require.Equal(t, v, got, "the selector stays, and matches nothing")
		}
		info := mustParse(t, "GET /apis/example.dev/v1/widgets?fieldSelector=metadata.namespace%3D.."+watch)
		require.Empty(t, info.Namespace)
	}
}

func TestTABLE_08_IncludeObject(t *testing.T) {
	for _, v := range []string{"", "None", "Metadata", "Object"} {
		q := query(t, "GET "+W+"?includeObject="+v)
		require.Equal(t, v, q.IncludeObject)
		require.NoError(t, q.ValidateTable())
	}
	require.Error(t, query(t, "GET "+W+"?includeObject=all").ValidateTable(), "anything but a Table ignores it")
}

func TestRequestsThatNeverWereOnAWire(t *testing.T) {
	r, err := http.NewRequest("", "http://in-process"+W+"/a%3Ab?timeout=1s", nil)
	require.NoError(t, err)
	r.Method = ""
	info, err := request.Parse(r, "")
	require.NoError(t, err)
	require.Equal(t, "get", info.Verb)
	require.Equal(t, "a:b", info.Name)

	require.Nil(t, request.From(r.Context()))
	x := new(request.Exchange).Begin(r, "", time.Now())
	require.Nil(t, request.From(x))
	x.Info.Store(info)
	require.Same(t, info, request.From(x))
}

// An integer that is none is refused on a watch as well, to which it says nothing.
func TestQUERY_18_LimitOfAWatch(t *testing.T) {
	query(t, "GET "+W+"?watch=1&limit=5")
	refused(t, 400, "GET "+W+"?watch=1&limit=x")
}

// What an option of a connection turns on is not left to a misspelt word.
func TestS11_S27_Flag(t *testing.T) {
	for value, want := range map[string]bool{"": true, "1": true, "true": true, "True": true, "TRUE": true, "0": false, "false": false, "False": false} {
		got, err := request.Flag("tty", value)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"no", "off", "yes", "t", "f", "2", "00", " true", "true ", "null", "-1", "\u0661"} {
		_, err := request.Flag("insecureSkipTLSVerifyBackend", value)
		require.Equal(t, 400, status.CodeOf(err), value)
		require.ErrorContains(t, err, "insecureSkipTLSVerifyBackend")
	}
}
