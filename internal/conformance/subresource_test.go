package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Desk has a subresource of every kind.
type Desk struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   DeskSpec   `json:"spec,omitzero"`
	Status DeskStatus `json:"status,omitzero"`
}

// DeskSpec is the desired state of a desk.
type DeskSpec struct {
	Replicas int32             `json:"replicas,omitempty"`
	Color    string            `json:"color,omitempty" maxLength:"10"`
	Drawers  map[string]string `json:"drawers,omitempty"`
	Other    string            `json:"other,omitempty"`
}

// DeskStatus is the observed state of a desk.
type DeskStatus struct {
	Replicas int32  `json:"replicas,omitempty"`
	Phase    string `json:"phase,omitempty"`
}

// Paint shows a part of a desk.
type Paint struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero" protobuf:"bytes,1,opt,name=metadata"`

	Color   string            `json:"color,omitempty" protobuf:"bytes,2,opt,name=color" column:"Color" minLength:"2"`
	Gloss   string            `json:"gloss,omitempty" protobuf:"bytes,3,opt,name=gloss" default:"mat"`
	Drawers map[string]string `json:"drawers,omitempty" protobuf:"bytes,4,rep,name=drawers"`
}

// Report is an answer about a desk. It has no metadata.
type Report struct {
	meta.TypeMeta `json:",inline"`

	About string   `json:"about" protobuf:"bytes,1,opt,name=about"`
	Lines int64    `json:"lines" protobuf:"varint,2,opt,name=lines"`
	Words []string `json:"words,omitempty" protobuf:"bytes,3,rep,name=words"`
}

// ReportOptions are the parameters of a report.
type ReportOptions struct {
	Lines   *int64   `json:"lines,omitempty" minimum:"1" maximum:"100" default:"7" doc:"How many lines there are."`
	Words   []string `json:"word,omitempty" maxItems:"3"`
	Verbose bool     `json:"verbose,omitempty"`
	Fail    string   `json:"fail,omitempty" enum:"error,forbidden,panic,nothing,hang"`
}

// DiaryOptions are the parameters of a diary.
type DiaryOptions struct {
	Follow bool  `json:"follow,omitempty"`
	Days   int32 `json:"days,omitempty" minimum:"0"`
}

const deskPath = "/apis/shop.example.com/v1/namespaces/default/desks"

func desks(more ...registry.Endpoint) registry.Kind[Desk] {
	return registry.Kind[Desk]{
		Group: group, Version: "v1", Plural: "desks",
		Rules: registry.Rules[Desk]{Validate: func(_ context.Context, d *Desk, f *status.Fields) {
			if d.Spec.Color == "pink" {
				f.At("spec", "color").Invalid(d.Spec.Color, "no")
			}
		}},
		Subresources: append([]registry.Endpoint{
			registry.ScaleSubresource{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
			registry.View[Desk, Paint]{
				Name: "paint", Fields: [][]string{{"spec", "color"}, {"spec", "drawers"}},
				Get: func(_ context.Context, d *Desk) (*Paint, error) {
					return &Paint{Color: d.Spec.Color, Drawers: d.Spec.Drawers}, nil
				},
				Merge: func(_ context.Context, d *Desk, p *Paint) error {
					if p.Color == "locked" {
						return status.Forbidden(meta.GroupResource{Group: group, Resource: "desks"}, d.Name, "the paint is locked")
					}
					d.Spec.Color, d.Spec.Drawers = p.Color, p.Drawers
					d.Labels = map[string]string{"must": "not"}
					return nil
				},
				Validate: func(_ context.Context, p *Paint, f *status.Fields) {
					if p.Gloss == "none" {
						f.At("gloss").Invalid(p.Gloss, "must be positive")
					}
				},
			},
			registry.Query[Desk, ReportOptions, Report]{Name: "report", Run: reportOn},
			registry.Stream[Desk, DiaryOptions]{Name: "diary", Open: openDiary},
		}, more...),
	}
}

func reportOn(ctx context.Context, call *registry.Call[Desk], o *ReportOptions) (*Report, error) {
	switch o.Fail {
	case "error":
		return nil, errors.New("the secret reason")
	case "forbidden":
		return nil, status.Forbidden(meta.GroupResource{}, call.Object.Name, "not on sundays")
	case "panic":
		panic("the secret panic")
	case "nothing":
		return nil, nil
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	registry.Warn(ctx, "reports are cheap")
	return &Report{About: call.Object.Name + " " + call.Object.Spec.Color, Lines: *o.Lines, Words: o.Words}, nil
}

func openDiary(ctx context.Context, call *registry.Call[Desk], o *DiaryOptions) (io.ReadCloser, error) {
	if call.Object.Spec.Other == "secret" {
		return nil, status.Forbidden(meta.GroupResource{Group: group, Resource: "desks"}, call.Object.Name, "the diary is private")
	}
	if !o.Follow {
		return io.NopCloser(strings.NewReader(strings.Repeat("a day\n", int(o.Days)))), nil
	}
	return registry.Writing(ctx, func(ctx context.Context, w io.Writer) error {
		for day := 1; o.Days == 0 || day <= int(o.Days); day++ {
			if _, err := fmt.Fprintf(w, "page %d\n", day); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Minute):
			}
		}
		return errors.New("the diary is torn")
	}), nil
}

func onDesks(t *testing.T, test func(t *testing.T, s *server), opts ...kindwright.Option) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		s.create(deskPath+"?fieldManager=maker", `{"metadata":{"name":"a"},"spec":{"color":"red","other":"o"}}`)
		test(t, s)
	}, append(opts, kindwright.Serve(desks()))...)
}

func TestMODEL_06_SubresourcesAreBelowOneObject(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		require.Equal(t, "Paint", s.get(deskPath+"/a/paint").is(200).at("kind"))
		for _, path := range []string{deskPath + "/paint", deskPath + "/none/paint", deskPath + "/none/report", deskPath + "/none/diary", "/apis/shop.example.com/v1/desks/a/paint"} {
			s.get(path).refused(404, "NotFound", "")
		}
		for _, path := range []string{"/a/paint/", "/a/paint/b", "/a/report/x/y", "/a/diary/", "/a/status/z"} {
			s.get(deskPath+path).refused(404, "NotFound", "could not find the requested resource")
		}
	})
}

func TestMODEL_07_SubresourcesAreAuthorizedByThemselves(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		ann, bob := []string{"X-User", "ann", "X-Groups", ""}, []string{"X-User", "bob", "X-Groups", ""}
		s.get(deskPath+"/a", ann...).is(200)
		for _, sub := range []string{"paint", "report", "diary", "scale", "status"} {
			s.get(deskPath+"/a/"+sub, ann...).refused(403, "Forbidden", `cannot get resource "desks/`+sub+`"`)
			s.get(deskPath+"/none/"+sub, ann...).refused(403, "Forbidden", "")
		}
		s.get(deskPath+"/a/report", bob...).is(200)
		s.get(deskPath+"/a", bob...).refused(403, "Forbidden", "")
		s.get(deskPath+"/a/paint", bob...).refused(403, "Forbidden", "")
		s.do("PUT", deskPath+"/a/paint", `{"metadata":{"name":"a"},"color":"blue"}`, bob...).is(200)
		s.do("PATCH", deskPath+"/a/paint", `{"color":"green"}`, append(bob, "Content-Type", mergeType)...).refused(403, "Forbidden", `cannot patch resource "desks/paint"`)
		s.get(deskPath+"/a/report/more", bob...).refused(404, "NotFound", "")
		s.get(deskPath+"/a/paint/more", bob...).refused(403, "Forbidden", "")
	}, kindwright.Authorize(allowing("ann get desks", "bob get desks/report", "bob update desks/paint")))
}

func TestMODEL_08_ResponsesOfAnotherKind(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		for _, accept := range []string{"", "*/*", "application/json", "application/json, */*", asProtobuf, "application/yaml", "text/plain", "text/*"} {
			got := s.get(deskPath+"/a/diary?days=2", "Accept", accept).is(200)
			require.Equal(t, "text/plain", got.header.Get("Content-Type"), accept)
			require.Equal(t, "a day\na day\n", string(got.body))
		}
		for _, accept := range []string{"image/png", "text/html", "text/plain;q=0"} {
			s.get(deskPath+"/a/diary?days=2", "Accept", accept).refused(406, "NotAcceptable", "text/plain")
		}
		head := s.do("HEAD", deskPath+"/a/diary?days=2", "").is(200)
		require.Equal(t, "text/plain", head.header.Get("Content-Type"))
		require.Empty(t, head.body)
		s.get(deskPath+"/a/diary?days=-1").refused(422, "Invalid", "DiaryOptions.shop.example.com")
		s.get(deskPath+"/a/diary?days=x").refused(400, "BadRequest", "days")
		s.get(deskPath+"/a/diary?days=1&days=2").refused(400, "BadRequest", "different values")
		require.Equal(t, "a day\n", string(s.get(deskPath+"/a/diary?days=1&what=ever").is(200).body), "others know what this is")
		s.create(deskPath, `{"metadata":{"name":"b"},"spec":{"other":"secret"}}`)
		s.get(deskPath+"/b/diary").refused(403, "Forbidden", "the diary is private")
		for _, method := range []string{"PUT", "POST", "PATCH", "DELETE"} {
			got := s.do(method, deskPath+"/a/diary", "{}", "Content-Type", mergeType).refused(405, "MethodNotAllowed", "")
			require.Equal(t, "GET, HEAD", got.header.Get("Allow"))
		}
	})
}

// A stream continues as long as its client reads. It ends with the client, with the server, or with
// an error that cannot be mistaken for its regular end.
func TestMODEL_08_StreamsContinue(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		res := s.send("GET", deskPath+"/a/diary?follow", "")
		require.Equal(t, 200, res.StatusCode)
		buf := make([]byte, 100)
		for day := 1; day < 10; day++ { // far beyond every timeout
			n, err := res.Body.Read(buf)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("page %d\n", day), string(buf[:n]), "delivered as it is written")
		}
		require.NoError(t, res.Body.Close())

		res = s.send("GET", deskPath+"/a/diary?follow=true&days=2", "")
		_, err := io.ReadAll(res.Body)
		require.Error(t, err, "it is broken off, not ended")

		res = s.send("GET", deskPath+"/a/diary?follow=1", "")
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			time.Sleep(15 * time.Minute)
			s.stop()
		}()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err, "the server ends it in order")
		require.Equal(t, "page 1\npage 2\n", string(text))
		<-stopped
	})
}

// A client that does not read loses the stream, and the writer of the stream learns of it.
func TestMODEL_08_SlowReadersLoseTheirStream(t *testing.T) {
	var mu sync.Mutex
	var ended error
	flood := registry.Stream[Desk, registry.NoOptions]{Name: "flood", Open: func(ctx context.Context, _ *registry.Call[Desk], _ *registry.NoOptions) (io.ReadCloser, error) {
		return registry.Writing(ctx, func(_ context.Context, w io.Writer) error {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					mu.Lock()
					defer mu.Unlock()
					ended = err
					return err
				}
			}
		}), nil
	}}
	onEach(t, func(t *testing.T, s *server) {
		s.create(deskPath, `{"metadata":{"name":"a"}}`)
		res := s.send("GET", deskPath+"/a/flood", "")
		time.Sleep(time.Minute)
		mu.Lock()
		require.Error(t, ended, "the wait is limited")
		ended = nil
		mu.Unlock()
		_, err := io.Copy(io.Discard, res.Body)
		require.Error(t, err)
	}, kindwright.Serve(desks(flood)))
}

func TestMODEL_09_NoSubresourceOfACollection(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		for _, path := range []string{deskPath + "//paint", deskPath + "/-/paint", deskPath + "/%2A/paint", "/apis/shop.example.com/v1/desks/paint"} {
			require.Contains(t, []int{400, 404}, s.get(path).code, path)
		}
		s.get("/apis/shop.example.com/v1/namespaces/-/desks/a/paint").is(404)
	})
}

func TestPATH_15_QueriesAnswerDocuments(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		got := s.get(deskPath + "/a/report?word=x&word=y&verbose").is(200)
		require.Equal(t, map[string]any{"apiVersion": "shop.example.com/v1", "kind": "Report", "about": "a red", "lines": 7.0, "words": []any{"x", "y"}}, got.doc)
		require.Equal(t, `299 - "reports are cheap"`, got.header.Get("Warning"))
		require.Contains(t, string(s.get(deskPath+"/a/report?lines=3", "Accept", "application/yaml").is(200).body), "lines: 3\n")
		require.Contains(t, string(s.get(deskPath+"/a/report", "Accept", asProtobuf).is(200).body), "a red")
		s.get(deskPath+"/a/report", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").refused(406, "NotAcceptable", "")
		for query, text := range map[string]string{"lines=0": "lines", "lines=101": "lines", "word=1&word=2&word=3&word=4": "word", "fail=other": "fail"} {
			s.get(deskPath+"/a/report?"+query).refused(422, "Invalid", `ReportOptions.shop.example.com "a" is invalid: `+text)
		}
		for _, query := range []string{"lines=", "lines=x", "lines=1.5", "lines=99999999999999999999", "lines=%2B1", "lines=1&lines=2", "a;b"} {
			s.get(deskPath+"/a/report?"+query).refused(400, "BadRequest", "")
		}
		s.get(deskPath+"/a/report?fail="+strings.Repeat("x", 100_000)).refused(422, "Invalid", "")
		for _, fail := range []string{"error", "panic", "nothing"} {
			got := s.get(deskPath+"/a/report?fail="+fail).refused(500, "InternalError", "")
			require.NotContains(t, string(got.body), "secret")
			require.NotEmpty(t, got.header.Get("Audit-Id"))
		}
		s.get(deskPath+"/a/report?fail=forbidden").refused(403, "Forbidden", "not on sundays")
		begun := time.Now()
		s.get(deskPath+"/a/report?fail=hang").refused(504, "Timeout", "")
		require.Equal(t, time.Minute, time.Since(begun))
		s.get(deskPath+"/a/report?fail=hang&timeout=2s").refused(504, "Timeout", "")
		require.Equal(t, time.Minute+2*time.Second, time.Since(begun))
		s.do("PUT", deskPath+"/a/report", "{}").refused(405, "MethodNotAllowed", "")
	})
}

func paintJSON(rest string) string { return `{"metadata":{"name":"a"},` + rest + `}` }

func TestPATH_15_ViewsShowAPartOfAnObject(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		object := s.get(deskPath + "/a")
		got := s.get(deskPath + "/a/paint").is(200)
		require.Equal(t, map[string]any{
			"apiVersion": "shop.example.com/v1", "kind": "Paint", "color": "red",
			"metadata": map[string]any{
				"name": "a", "namespace": "default", "uid": object.at("metadata", "uid"), "resourceVersion": object.version(), "creationTimestamp": object.at("metadata", "creationTimestamp"),
			},
		}, got.doc)
		table := s.get(deskPath+"/a/paint", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").is(200)
		require.Equal(t, []any{"a", "red"}, at(table.at("rows").([]any)[0], "cells").([]any)[:2])
		require.Contains(t, string(s.get(deskPath+"/a/paint", "Accept", asProtobuf).is(200).body), "red")

		got = s.do("PUT", deskPath+"/a/paint?fieldManager=bob", paintJSON(`"color":"blue","drawers":{"x":"y"}`)).is(200)
		require.Equal(t, "blue", got.at("color"))
		object = s.get(deskPath + "/a")
		require.Equal(t, object.version(), got.version())
		require.Equal(t, map[string]any{"color": "blue", "other": "o", "drawers": map[string]any{"x": "y"}}, object.at("spec"))
		require.Nil(t, object.at("metadata", "labels"), "a view cannot change metadata")
		require.InDelta(t, 2, object.at("metadata", "generation"), 0)
		require.ElementsMatch(t, []string{"maker Update: spec/. spec/other", "bob Update/paint: spec/color spec/drawers/. spec/drawers/x"}, owners(object))
		n := 0
		for patchType, body := range map[string]string{
			mergeType: `{"drawers":{"m":"1"}}`, jsonPatchType: `[{"op":"add","path":"/drawers/j","value":"1"}]`, strategicType: `{"drawers":{"s":"1"}}`,
		} {
			n++
			got := s.change(deskPath+"/a/paint", patchType, body).is(200)
			require.Len(t, got.at("drawers"), n+1)
			require.Equal(t, got.at("drawers"), s.get(deskPath+"/a").at("spec", "drawers"))
		}
		s.change(deskPath+"/a/paint?fieldManager=x", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Paint","metadata":{"name":"a"}}`).
			refused(415, "UnsupportedMediaType", "application/json-patch+json, application/merge-patch+json")
		before := s.get(deskPath + "/a")
		again := s.get(deskPath + "/a/paint")
		require.Equal(t, before.version(), s.do("PUT", deskPath+"/a/paint", string(again.body)).is(200).version(), "nothing changes")
		s.do("PUT", deskPath+"/a/paint?dryRun=All", paintJSON(`"color":"green"`)).is(200)
		require.Equal(t, before.doc, s.get(deskPath+"/a").doc)
	})
}

func TestPATH_15_BadDocumentsOfAView(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		before := s.get(deskPath + "/a")
		for body, want := range map[string]struct {
			code         int
			reason, text string
		}{
			paintJSON(`"color":"x"`):                          {422, "Invalid", `Paint.shop.example.com "a" is invalid: color`},
			paintJSON(`"gloss":"none"`):                       {422, "Invalid", "must be positive"},
			paintJSON(`"color":7`):                            {422, "Invalid", "color"},
			paintJSON(`"color":"pink"`):                       {422, "Invalid", `Desk.shop.example.com "a" is invalid: spec.color`},
			paintJSON(`"color":"a color far too long"`):       {422, "Invalid", "Desk.shop.example.com"},
			paintJSON(`"color":"locked"`):                     {403, "Forbidden", "the paint is locked"},
			paintJSON(`"kind":"Desk"`):                        {400, "BadRequest", "desks.shop.example.com/paint takes kind Paint of shop.example.com/v1"},
			paintJSON(`"apiVersion":"shop.example.com/v2"`):   {400, "BadRequest", ""},
			`{"metadata":{"name":"b"}}`:                       {400, "BadRequest", "does not match the name on the URL"},
			`{"metadata":{"name":"a","uid":"u"}}`:             {409, "Conflict", "UID"},
			`{"metadata":{"name":"a","resourceVersion":"1"}}`: {409, "Conflict", "desks.shop.example.com"},
			`{"metadata":[]}`:                                 {400, "BadRequest", "metadata"},
			`[`:                                               {400, "BadRequest", ""},
			``:                                                {400, "BadRequest", "a Paint is expected"},
			`{"color":"blue"}`:                                {400, "BadRequest", "name must be provided"},
		} {
			s.do("PUT", deskPath+"/a/paint", body).refused(want.code, want.reason, want.text)
		}
		s.do("PUT", deskPath+"/a/paint?fieldValidation=Strict", paintJSON(`"colour":"blue"`)).refused(400, "BadRequest", `unknown field "colour"`)
		require.Contains(t, s.do("PUT", deskPath+"/a/paint?dryRun=All", paintJSON(`"colour":"blue"`)).is(200).header.Get("Warning"), `unknown field \"colour\"`)
		s.do("PUT", deskPath+"/none/paint", `{"metadata":{"name":"none"}}`).refused(404, "NotFound", `desks.shop.example.com "none" not found`)
		s.do("PUT", deskPath+"/a/paint", strings.Repeat("x", 4<<20)).is(413)
		require.Equal(t, before.doc, s.get(deskPath+"/a").doc)
	})
}

// Concurrent writers through three subresources lose no changes.
func TestUPDATE_11_UPDATE_12_WritersThroughSeveralSubresources(t *testing.T) {
	onDesks(t, func(t *testing.T, s *server) {
		const rounds = 15
		var wg sync.WaitGroup
		count := func(name, path string, body func(i int) string) {
			wg.Go(func() {
				for i := 1; i <= rounds; i++ {
					got := s.do("PATCH", deskPath+"/a"+path+"?fieldManager="+name, body(i), "Content-Type", mergeType)
					if got.code != 200 {
						t.Errorf("%s", got)
					}
				}
			})
		}
		count("main", "", func(i int) string { return fmt.Sprintf(`{"spec":{"other":"%d"}}`, i) })
		count("scale", "/scale", func(i int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, i) })
		count("state", "/status", func(i int) string { return fmt.Sprintf(`{"status":{"phase":"%d"},"spec":{"other":"lost"}}`, i) })
		count("paint", "/paint", func(i int) string { return fmt.Sprintf(`{"drawers":{"%d":"x"}}`, i) })
		wg.Go(func() {
			for done := 0; done < rounds; {
				got := s.get(deskPath + "/a/scale")
				if s.do("PUT", deskPath+"/a/scale?fieldManager=put", string(got.body)).code != 409 {
					done++
				}
			}
		})
		wg.Wait()
		got := s.get(deskPath + "/a")
		require.Equal(t, fmt.Sprint(rounds), got.at("spec", "other"))
		require.InDelta(t, rounds, got.at("spec", "replicas"), 0)
		require.Equal(t, fmt.Sprint(rounds), got.at("status", "phase"))
		require.Len(t, got.at("spec", "drawers"), rounds)
		require.InDelta(t, 1+3*rounds, got.at("metadata", "generation"), 0, "one per change of the desired state")
		require.Len(t, owners(got), 5)
	})
}

func TestADM_06_ADM_10_SubresourcesAreAdmitted(t *testing.T) {
	var seen calls
	plugin := admission.Plugin{Name: "see", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.User.Name == "bob" {
			seen.add(fmt.Sprintf("%s %s %s/%s %s %v->%v %T", r.Operation, r.Kind.Kind, r.Resource.Resource, r.Subresource, r.Name, at(r.OldObject, "color"), at(r.Object, "color"), r.Options))
		}
		return nil
	}), Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if r.Subresource == "paint" && at(r.Object, "color") == "auto" {
			return admission.Patched(r, admission.Set("grey", "color"), admission.Set("x", "nowhere"))
		}
		return admission.Allowed(r)
	})}
	onDesks(t, func(t *testing.T, s *server) {
		bob := func(method, path, body string) *answer {
			contentType := "application/json"
			if method == "PATCH" {
				contentType = mergeType
			}
			return s.do(method, deskPath+"/a/"+path, body, "X-User", "bob", "Content-Type", contentType)
		}
		got := bob("PUT", "paint?fieldManager=bob", paintJSON(`"color":"auto"`)).is(200)
		require.Equal(t, "grey", got.at("color"))
		object := s.get(deskPath + "/a")
		require.Equal(t, "grey", object.at("spec", "color"))
		bob("PATCH", "paint", `{"color":"blue"}`).is(200)
		bob("PATCH", "status", `{"status":{"phase":"x"}}`).is(200)
		bob("GET", "report", "").is(200)
		bob("GET", "diary", "").is(200)
		require.Equal(t, []string{
			"UPDATE Paint desks/paint a red->grey meta.UpdateOptions", "UPDATE Paint desks/paint a grey->blue meta.UpdateOptions",
			"UPDATE Desk desks/status a <nil>-><nil> meta.UpdateOptions",
		}, seen.take())
	}, kindwright.Admit(plugin))
}

// Slip is the body of an action. It has no name and is not stored.
type Slip struct {
	meta.TypeMeta `json:",inline"`

	Question string `json:"question" minLength:"1"`
	Answer   string `json:"answer,omitempty"`
}

func TestMODEL_21_MODEL_23_VirtualKinds(t *testing.T) {
	var admitted calls
	plugin := admission.Plugin{Name: "see", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if r.Resource.Resource == "slips" || r.Resource.Resource == "localslips" {
			admitted.add(fmt.Sprint(r.Operation, " ", r.Kind.Kind, " ", r.Namespace, " ", r.Name))
			if at(r.Object, "question") == "short" {
				return admission.Patched(r, admission.Set("longer", "question"))
			}
		}
		return admission.Allowed(r)
	}), Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if at(r.Object, "question") == "forbidden" {
			return admission.Denied(r, "one does not ask that")
		}
		return nil
	})}
	run := func(_ context.Context, s *Slip) error {
		if s.Question == "panic" {
			panic("the secret panic")
		}
		s.Answer = "about " + s.Question
		return nil
	}
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range []string{"/apis/shop.example.com/v1/slips", "/apis/shop.example.com/v1/namespaces/default/localslips"} {
			got := s.do("POST", path, `{"question":"x"}`).is(201)
			require.Equal(t, map[string]any{"apiVersion": "shop.example.com/v1", "kind": got.at("kind"), "question": "x", "answer": "about x"}, without(got.doc, "metadata"))
			require.Contains(t, string(s.do("POST", path, "question: why", "Content-Type", "application/yaml", "Accept", "application/yaml").is(201).body), "answer: about why\n")
			admitted.take()
			require.Equal(t, "about longer", s.do("POST", path, `{"question":"short"}`).is(201).at("answer"))
			require.Len(t, admitted.take(), 1)
			s.do("POST", path, `{"question":"forbidden"}`).refused(403, "Forbidden", "one does not ask that")
			s.do("POST", path, `{"question":""}`).refused(422, "Invalid", "question")
			s.do("POST", path, `{}`).refused(422, "Invalid", "question")
			s.do("POST", path, `{"question":1}`).refused(422, "Invalid", "question")
			s.do("POST", path, `{"kind":"Widget","question":"x"}`).refused(400, "BadRequest", "takes kind")
			s.do("POST", path, ``).refused(400, "BadRequest", "is expected")
			s.do("POST", path+"?fieldValidation=Strict", `{"question":"x","what":1}`).refused(400, "BadRequest", "unknown field")
			require.NotContains(t, string(s.do("POST", path, `{"question":"panic"}`).refused(500, "InternalError", "").body), "secret")
			for _, method := range []string{"GET", "DELETE"} {
				require.Equal(t, "POST", s.do(method, path, "").refused(405, "MethodNotAllowed", "").header.Get("Allow"))
			}
			s.get(path+"?watch=1").refused(405, "MethodNotAllowed", "")
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				require.Contains(t, []int{404, 405}, s.do(method, path+"/x", "").code)
			}
		}
	}, kindwright.Serve(
		registry.VirtualKind[Slip]{Group: group, Version: "v1", Plural: "slips", Run: run},
		registry.VirtualKind[Slip]{Group: group, Version: "v1", Plural: "localslips", Names: registry.Names{Kind: "LocalSlip"}, Namespaced: true, Run: run},
	), kindwright.Admit(plugin))
}

// without returns a document without one of its fields.
func without(doc map[string]any, name string) map[string]any {
	out := map[string]any{}
	for k, v := range doc {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// Bell is a kind that is rung by a POST.
type Bell struct {
	meta.TypeMeta `json:",inline"`

	Times int32 `json:"times,omitempty" default:"1" minimum:"1" maximum:"9"`
}

// Peal is the response.
type Peal struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Sound string `json:"sound"`
}

func TestMODEL_22_OperationsOnAnObject(t *testing.T) {
	ring := func(_ context.Context, call *registry.Call[Desk], b *Bell) (*Peal, error) {
		if b.Times == 9 {
			return nil, errors.New("the secret bell")
		}
		return &Peal{ObjectMeta: meta.ObjectMeta{Name: call.Target.Name}, Sound: strings.Repeat("ding ", int(b.Times)) + call.Object.Spec.Color}, nil
	}
	endpoints := []registry.Endpoint{
		registry.Action[Desk, Bell, Peal]{Name: "bell", Run: ring},
		registry.Action[Desk, Bell, Peal]{Name: "bell", Verb: "update", Run: ring},
		registry.Query[Desk, registry.NoOptions, Bell]{Name: "bell", Run: func(context.Context, *registry.Call[Desk], *registry.NoOptions) (*Bell, error) {
			return &Bell{Times: 3}, nil
		}},
	}
	onEach(t, func(t *testing.T, s *server) {
		s.create(deskPath, `{"metadata":{"name":"a"},"spec":{"color":"red"}}`)
		before := s.get(deskPath + "/a")
		got := s.do("POST", deskPath+"/a/bell", `{"times":2}`).is(201)
		require.Equal(t, map[string]any{"apiVersion": "shop.example.com/v1", "kind": "Peal", "metadata": map[string]any{"name": "a"}, "sound": "ding ding red"}, got.doc)
		require.Equal(t, "ding red", s.do("POST", deskPath+"/a/bell", "").is(201).at("sound"), "with its defaults")
		require.Equal(t, "ding red", s.do("PUT", deskPath+"/a/bell", "{}").is(200).at("sound"))
		require.InDelta(t, 3, s.get(deskPath+"/a/bell").is(200).at("times"), 0)
		s.do("POST", deskPath+"/none/bell", "").refused(404, "NotFound", `desks.shop.example.com "none" not found`)
		s.do("POST", deskPath+"/a/bell", `{"times":10}`).refused(422, "Invalid", "Bell.shop.example.com")
		require.NotContains(t, string(s.do("POST", deskPath+"/a/bell", `{"times":9}`).refused(500, "InternalError", "").body), "secret")
		require.Equal(t, "GET, HEAD, POST, PUT", s.do("DELETE", deskPath+"/a/bell", "").refused(405, "MethodNotAllowed", "").header.Get("Allow"))
		require.Equal(t, before.doc, s.get(deskPath+"/a").doc)
		verbs := map[any]any{}
		for _, r := range s.get("/apis/shop.example.com/v1").at("resources").([]any) {
			verbs[at(r, "name")] = []any{at(r, "kind"), at(r, "verbs")}
		}
		require.Equal(t, []any{"Bell", []any{"create", "get", "update"}}, verbs["desks/bell"])
		require.Equal(t, []any{"Paint", []any{"get", "patch", "update"}}, verbs["desks/paint"])
		require.Equal(t, []any{"Report", []any{"get"}}, verbs["desks/report"])
		require.Equal(t, []any{"Desk", []any{"get"}}, verbs["desks/diary"])
		const path = "/apis/shop.example.com/v1/namespaces/{namespace}/desks/{name}/"
		for version, doc := range map[string]*answer{"v3": s.get("/openapi/v3/apis/shop.example.com/v1").is(200), "v2": s.get("/openapi/v2").is(200)} {
			kind := func(sub, method string) any {
				return doc.at("paths", path+sub, method, "x-kubernetes-group-version-kind", "kind")
			}
			require.Equal(t, "Bell", kind("bell", "post"), version)
			require.Equal(t, "Bell", kind("bell", "get"), version)
			require.Equal(t, "Paint", kind("paint", "put"), version)
			require.Equal(t, "Report", kind("report", "get"), version)
			require.Nil(t, doc.at("paths", path+"report", "put"), version)
			var names []string
			for _, p := range doc.at("paths", path+"report", "get", "parameters").([]any) {
				names = append(names, at(p, "name").(string))
			}
			require.Equal(t, []string{"resourceVersion", "fail", "lines", "verbose", "word"}, names, version)
		}
		v3 := s.get("/openapi/v3/apis/shop.example.com/v1")
		require.NotNil(t, v3.at("paths", path+"diary", "get", "responses", "200", "content", "text/plain"))
		require.Equal(t, "#/components/schemas/com.example.shop.v1.Peal", v3.at("paths", path+"bell", "post", "responses", "201", "content", "application/json", "schema", "$ref"))
		require.Equal(t, "#/components/schemas/com.example.shop.v1.Bell", v3.at("paths", path+"bell", "post", "requestBody", "content", "application/json", "schema", "$ref"))
	}, kindwright.Serve(desks(endpoints...)))
}
