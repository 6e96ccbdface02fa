package client_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func TestPAGE_03_AListComesInPages(t *testing.T) {
	c := client.For(apitest.New(t, widgets()).Client(), widgets())
	var want []string
	for i := range 7 {
		w, err := c.Create(t.Context(), named(fmt.Sprintf("w%d", i)))
		require.NoError(t, err)
		want = append(want, w.Name)
	}
	for _, size := range []int{0, 1, 2, 3, 7, 100} {
		var got, sizes []string
		version := ""
		for page, err := range c.Pages(t.Context(), client.In("default"), client.PageSize(size)) {
			require.NoError(t, err)
			require.False(t, page.Restarted)
			if version != "" {
				require.Equal(t, version, page.Version)
			}
			version = page.Version
			got = append(got, names(page.Items)...)
			sizes = append(sizes, fmt.Sprint(len(page.Items)))
			if page.Remaining != nil {
				require.EqualValues(t, 7-len(got), *page.Remaining)
			}
		}
		require.Equal(t, want, got, "pages of %d: %v", size, sizes)
		l, err := c.List(t.Context(), client.Selection{}, client.PageSize(size))
		require.NoError(t, err)
		require.Equal(t, want, names(l.Items))
	}
}

func TestAPageLoopThatIsLeftAsksForNoMore(t *testing.T) {
	s, c := play(t, reply{body: list("5", "more", object("a", "1"))})
	for page, err := range c.Pages(t.Context(), client.In("default"), client.PageSize(1)) {
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, names(page.Items))
		break
	}
	s.require("GET " + widgetPath + "?limit=1")
}

func TestSelections(t *testing.T) {
	c := client.For(apitest.New(t, widgets()).Client(), widgets())
	for _, name := range []string{"a", "b", "c"} {
		w := named(name)
		w.Labels = map[string]string{"l": name}
		_, err := c.Create(t.Context(), w)
		require.NoError(t, err)
	}
	labels, err := meta.ParseSelector("l in (a,c)")
	require.NoError(t, err)
	fields, err := meta.ParseFieldSelector("metadata.name!=a")
	require.NoError(t, err)
	l, err := c.List(t.Context(), client.Selection{Namespace: "default", Labels: labels, Fields: fields})
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, names(l.Items))
	l, err = c.List(t.Context(), client.Selection{Labels: meta.Nothing()})
	require.NoError(t, err)
	require.Empty(t, l.Items)
	require.NoError(t, c.DeleteCollection(t.Context(), client.Selection{Namespace: "default", Labels: labels}))
	l, err = c.List(t.Context(), client.Selection{})
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, names(l.Items))
}

func TestLIST_24_AVersionIsNeverSentWithoutItsMeaning(t *testing.T) {
	s, c := play(t, reply{body: list("9", "x")}, reply{body: list("9", "")}, reply{body: list("7", "")}, reply{body: list("8", "")}, reply{body: list("8", "")})
	ctx, all := t.Context(), client.In("default")
	_, err := c.List(ctx, all, client.NotOlderThan("7"))
	require.NoError(t, err)
	_, err = c.List(ctx, all, client.Exactly("7"))
	require.NoError(t, err)
	_, err = c.List(ctx, all, client.AnyState(), client.PageSize(0))
	require.NoError(t, err)
	_, err = c.List(ctx, all)
	require.NoError(t, err)
	s.require(
		"GET "+widgetPath+"?limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan",
		"GET "+widgetPath+"?continue=x&limit=500", // LIST-09: the token brings its version
		"GET "+widgetPath+"?limit=500&resourceVersion=7&resourceVersionMatch=Exact",
		"GET "+widgetPath+"?resourceVersion=0&resourceVersionMatch=NotOlderThan",
		"GET "+widgetPath+"?limit=500",
	)
}

// older is a server without resourceVersionMatch: a version means "not older than", and with a
// limit "exactly". It has discarded states older than oldest.
func older(now, oldest int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		version := now
		if q.Get("limit") != "" && q.Get("resourceVersion") != "" {
			_, _ = fmt.Sscan(q.Get("resourceVersion"), &version)
		}
		if version < oldest {
			w.WriteHeader(410)
			_, _ = w.Write([]byte(failure(410, meta.ReasonExpired)))
			return
		}
		_, _ = w.Write([]byte(list(fmt.Sprint(version), "", object("a", "1"))))
	}
}

func TestLIST_24_AServerThatIgnoresTheMeaningIsTolerated(t *testing.T) {
	c := serve(t, older(50, 40))
	for _, opts := range [][]client.ReadOption{
		{client.NotOlderThan("45")},
		{client.NotOlderThan("45"), client.PageSize(0)},
		{client.NotOlderThan("20")}, // understood as "exactly", which is gone: retried without it
		{client.AnyState(), client.PageSize(0)},
	} {
		l, err := c.List(t.Context(), client.In("default"), opts...)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, names(l.Items))
	}
}

func TestLIST_31_AVersionThatCannotBeServedGivesWayToTheNewest(t *testing.T) {
	expired := refuse(410, meta.ReasonExpired)
	s, c := play(t, expired, reply{body: list("9", "")}, expired, expired)
	l, err := c.List(t.Context(), client.In("default"), client.NotOlderThan("7"))
	require.NoError(t, err)
	require.Equal(t, "9", l.Version)
	s.require("GET "+widgetPath+"?limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan", "GET "+widgetPath+"?limit=500")
	_, err = c.List(t.Context(), client.In("default"), client.NotOlderThan("7"))
	require.True(t, status.IsExpired(err), "once, not for ever")
}

func TestLIST_31_ByCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.Config{Options: []kindwright.Option{kindwright.Watches{History: time.Minute}}}.New(t, widgets())
		c := client.For(srv.Client(), widgets())
		first, err := c.Create(t.Context(), named("a"))
		require.NoError(t, err)
		for i := range 5 {
			_, err = c.Create(t.Context(), named(fmt.Sprint("b", i)))
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		_, err = c.List(t.Context(), client.In("default"), client.Exactly(first.ResourceVersion))
		require.True(t, status.IsExpired(err), "%v", err)
		l, err := c.List(t.Context(), client.In("default"), client.NotOlderThan(first.ResourceVersion), client.PageSize(2))
		require.NoError(t, err)
		require.Len(t, l.Items, 6)
	})
}

func TestLIST_32_ExactlyIsAskedAgainWithALimit(t *testing.T) {
	c := serve(t, older(50, 40))
	l, err := c.List(t.Context(), client.In("default"), client.Exactly("45"), client.PageSize(0))
	require.NoError(t, err)
	require.Equal(t, "45", l.Version)

	s, c := play(t, reply{body: list("50", "")}, reply{body: list("45", "t")}, reply{body: list("45", "")}, reply{body: list("51", "")}, reply{body: list("51", "")})
	_, err = c.List(t.Context(), client.In("default"), client.Exactly("45"), client.PageSize(0))
	require.NoError(t, err)
	_, err = c.List(t.Context(), client.In("default"), client.Exactly("45"), client.PageSize(0))
	require.ErrorContains(t, err, `the server returned version "51" instead of "45"`)
	s.require(
		"GET "+widgetPath+"?resourceVersion=45&resourceVersionMatch=Exact",
		"GET "+widgetPath+"?limit=500&resourceVersion=45&resourceVersionMatch=Exact",
		"GET "+widgetPath+"?continue=t&limit=500",
		"GET "+widgetPath+"?resourceVersion=45&resourceVersionMatch=Exact",
		"GET "+widgetPath+"?limit=500&resourceVersion=45&resourceVersionMatch=Exact",
	)
}

func TestERR_10_AnExpiredTokenMakesTheListBeginAnew(t *testing.T) {
	expired := refuse(410, meta.ReasonExpired, `"details":{}`)
	s, c := play(t,
		reply{body: list("5", "t1", object("a", "1"), object("b", "2"))}, expired, reply{body: list("9", "", object("b", "2"), object("c", "3"))},
		reply{body: list("5", "t1", object("a", "1"), object("b", "2"))}, expired, reply{body: list("9", "", object("b", "2"), object("c", "3"))},
		reply{body: list("5", "t1")}, expired, expired,
		reply{body: list("5", "t1")}, expired,
	)
	var pages []string
	for page, err := range c.Pages(t.Context(), client.In("default"), client.PageSize(2)) {
		require.NoError(t, err)
		pages = append(pages, fmt.Sprint(page.Restarted, page.Version, names(page.Items)))
	}
	require.Equal(t, []string{"false5[a b]", "true9[b c]"}, pages)
	s.require("GET "+widgetPath+"?limit=2", "GET "+widgetPath+"?continue=t1&limit=2", "GET "+widgetPath)
	l, err := c.List(t.Context(), client.In("default"), client.PageSize(2))
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, names(l.Items), "nothing of the first attempt is left")
	require.Equal(t, "9", l.Version)
	_, err = c.List(t.Context(), client.In("default"), client.PageSize(2))
	require.True(t, status.IsExpired(err), "a server that says so of a list without a token is believed")
	_, err = c.List(t.Context(), client.In("default"), client.Exactly("5"), client.PageSize(2))
	require.True(t, status.IsExpired(err), "another state is not what was asked for")
}

func TestERR_10_ByCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apitest.Config{Options: []kindwright.Option{kindwright.Watches{History: time.Minute}}}.New(t, widgets())
		c := client.For(srv.Client(), widgets())
		for i := range 4 {
			_, err := c.Create(t.Context(), named(fmt.Sprint("w", i)))
			require.NoError(t, err)
		}
		var seen []string
		restarts := 0
		for page, err := range c.Pages(t.Context(), client.In("default"), client.PageSize(2)) {
			require.NoError(t, err)
			if page.Restarted {
				seen, restarts = nil, restarts+1
			}
			if seen = append(seen, names(page.Items)...); len(seen) == 2 && restarts == 0 {
				require.NoError(t, c.Delete(t.Context(), key("w0")))
				time.Sleep(time.Hour) // the reader thinks for longer than the server remembers
				_, err = c.Create(t.Context(), named("w9"))
				require.NoError(t, err)
				time.Sleep(time.Hour)
			}
		}
		require.Equal(t, 1, restarts)
		require.Equal(t, []string{"w1", "w2", "w3", "w9"}, seen)
	})
}
