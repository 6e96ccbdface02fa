package conformance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// misspelt are queries that their sender meant as a limit of a deletion or of a write.
func misspelt(option string) []string {
	name, value, _ := strings.Cut(option, "=")
	middle := len(name) / 2
	out := []string{
		strings.ToLower(name), strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], name + "[]", name + "%20", "%20" + name,
		name[:middle] + "-" + name[middle:], name[:middle] + "_" + name[middle:], name + "%00",
	}
	if len(name) > 5 {
		out = append(out, name[:2]+name[3:], name+"s", name[:1]+name[2:3]+name[1:2]+name[3:])
	}
	for i := range out {
		out[i] += "=" + value
	}
	return slices.DeleteFunc(out, func(q string) bool { return q == option })
}

// An option that is lost makes a deletion delete more than was meant, and a dry run a write.
func TestS2_AMisspeltOptionIsRejected(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.untouched(cratePath, func() {
			all := writesFor(t)
			delete(all, "create on update") // events have a rule of their own for what they lack
			for what, r := range all {
				for _, query := range misspelt("dryRun=All") {
					s.ask1(r.with(query)).refused(400, "BadRequest", `did you mean "dryRun"?`)
				}
				for _, query := range []string{"=All", "All", "%20=All", "All=", "[]=All"} {
					require.Equal(t, 400, s.ask1(r.with(query)).code, "%s %s", what, query)
				}
				s.ask1(r.with("dryRun=")).refused(422, "Invalid", "dryRun")
				s.ask1(r.with("dryRun=All&dryRun=None")).refused(422, "Invalid", "dryRun")
				s.ask1(r.with("dryRun=All&dryrun=false")).refused(400, "BadRequest", "dryRun")
			}
			for _, option := range []string{"propagationPolicy=Orphan", "gracePeriodSeconds=9", "orphanDependents=true", "uid=other"} {
				for _, query := range misspelt(option) {
					if strings.HasPrefix(query, "ui=") {
						continue
					}
					s.do("DELETE", cratePath+"/a?"+query, "").refused(400, "BadRequest", "did you mean")
					s.do("DELETE", cratePath+"?"+query, "").refused(400, "BadRequest", "did you mean")
				}
			}
			for _, option := range []string{"labelSelector=a%3Db", "fieldSelector=metadata.name%3Db", "limit=1", "continue=x", "resourceVersion=1", "resourceVersionMatch=Exact", "timeoutSeconds=1"} {
				for _, query := range misspelt(option) {
					s.do("DELETE", cratePath+"?"+query, "").refused(400, "BadRequest", "did you mean")
				}
			}
			for query, meant := range map[string]string{ // words of kubectl and of other APIs
				"selector=a%3Db": "labelSelector", "l=a%3Db": "labelSelector", "labels=a": "labelSelector", "field-selector=metadata.name%3Db": "fieldSelector",
				"name=b": "fieldSelector", "metadata.name=b": "fieldSelector", "namespace=b": "fieldSelector", "app.example.com/tier=web": "labelSelector",
				"a%3Db": "labelSelector", "cascade=orphan": "propagationPolicy", "grace-period=9": "gracePeriodSeconds", "dry-run=server": "dryRun",
				"serverDryRun=true": "dryRun", "deletionPropagation=Orphan": "propagationPolicy",
			} {
				s.do("DELETE", cratePath+"?"+query, "").refused(400, "BadRequest", meant)
			}
		})
		for _, query := range []string{"pretty=true", "timeout=5s", "alt=json", "foo=bar", "_=1700000000", "limit=5", "watch=0", "fieldManager=m"} {
			s.do("DELETE", cratePath+"/a?"+query, "").is(200)
			s.crate("a", "")
		}
		s.get(cratePath + "?labelselector=a%3Db&dryrun=All&=x").is(200) // reads ignore what they do not know (QUERY-18)
	})
}

func TestS2_OptionsInTheWrongPlaceOrEmpty(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		version := s.get(cratePath + "/a").version()
		one := map[string]request{
			"delete": {"DELETE", cratePath + "/a", "", ""}, "update": {"PUT", cratePath + "/a", jsonType, crateJSON("a", `"size":2`)},
			"patch": {"PATCH", cratePath + "/a", mergeType, `{"spec":{"size":2}}`}, "status": {"PATCH", cratePath + "/a/status", mergeType, `{"status":{"phase":"x"}}`},
		}
		s.untouched(cratePath, func() {
			for _, what := range slices.Sorted(maps.Keys(one)) {
				for _, query := range []string{
					"labelSelector=a%3Db", "labelSelector=", "fieldSelector=metadata.name%3Db", "resourceVersion=" + version, "resourceVersion=1",
					"resourceVersionMatch=Exact", "preconditions.uid=x", "preconditions=x", "preconditions%5Buid%5D=x", "labelselector=a%3Db",
				} {
					require.Equal(t, 400, s.ask1(one[what].with(query)).code, "%s %s", what, query)
				}
				if what != "delete" {
					for _, query := range []string{"uid=x", "propagationPolicy=Orphan", "gracePeriodSeconds=1", "orphanDependents=true"} {
						s.ask1(one[what].with(query)).refused(400, "BadRequest", "does not apply")
					}
				}
			}
			for _, query := range []string{
				"labelSelector=", "labelSelector", "labelSelector=%20", "labelSelector=,", "fieldSelector=", "fieldSelector", "limit=", "limit=-1", "continue=",
				"resourceVersion=", "resourceVersionMatch=", "uid=", "gracePeriodSeconds=", "orphanDependents=", "orphanDependents", "orphanDependents=no",
				"timeoutSeconds=", "labelSelector=a&labelSelector=b", "labelSelector=&labelSelector=a",
			} {
				s.do("DELETE", cratePath+"?"+query, "").refused(400, "BadRequest", "")
			}
			s.do("DELETE", cratePath+"?propagationPolicy=", "").refused(422, "Invalid", "propagationPolicy")
			s.do("DELETE", cratePath+"?propagationPolicy=foreground", "").refused(422, "Invalid", `"Foreground"`)
		})
	})
}

func TestS2_DeleteOptionsAreExact(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		uid := s.get(cratePath+"/a").text("metadata", "uid")
		s.untouched(cratePath, func() {
			for body, text := range map[string]string{
				`{"dryrun":["All"]}`:                                `did you mean \"dryRun\"?`,
				`{"DryRun":["All"]}`:                                `did you mean \"dryRun\"?`,
				`{"dry_run":["All"]}`:                               `did you mean \"dryRun\"?`,
				`{"dryRun":[]}`:                                     "empty",
				`{"dryRun":null}`:                                   "empty",
				`{"dryRun":"All"}`:                                  "",
				`{"dryRun":true}`:                                   "",
				`{"dryRun":["All"],"dryRun":["All"]}`:               "duplicate",
				`{"dryRun":{"0":"All"}}`:                            "",
				`{"DRYRUN":["All"],"dryRun":["All"]}`:               "DRYRUN",
				`{"GracePeriodSeconds":5}`:                          "gracePeriodSeconds",
				`{"gracePeriodSeconds":5.5}`:                        "",
				`{"gracePeriodSeconds":"5"}`:                        "",
				`{"gracePeriodSeconds":true}`:                       "",
				`{"propagationpolicy":"Orphan"}`:                    "propagationPolicy",
				`{"propogationPolicy":"Orphan"}`:                    "propagationPolicy",
				`{"orphanDependents":"false"}`:                      "",
				`{"orphanDependents":1}`:                            "",
				`{"Preconditions":{"uid":"x"}}`:                     "preconditions",
				`{"precondition":{"uid":"x"}}`:                      "preconditions",
				`{"preconditions":{"Uid":"x"}}`:                     `did you mean \"preconditions.uid\"?`,
				`{"preconditions":{"UID":"x"}}`:                     "preconditions.uid",
				`{"preconditions":{"resourceversion":"1"}}`:         "preconditions.resourceVersion",
				`{"preconditions":{"resourceVersion":1}}`:           "",
				`{"preconditions":{"uid":null}}`:                    "empty",
				`{"preconditions":null}`:                            "empty",
				`{"preconditions":[]}`:                              "",
				`{"preconditions":[{"uid":"x"}]}`:                   "",
				`{"preconditions":{"uid":"x","uid":"` + uid + `"}}`: "duplicate",
				`{"uid":"x"}`:                                       "uid",
				`{"resourceVersion":"1"}`:                           "resourceVersion",
				`{"metadata":{"resourceVersion":"1"}}`:              "metadata",
				`{"labelSelector":"a=b"}`:                           "labelSelector",
				`{"limit":1}`:                                       "limit",
				`{"kind":"deleteOptions","dryRun":["All"]}`:         "DeleteOptions",
				`{"kind":"DeleteOptions","DeleteOptions":{}}`:       "DeleteOptions",
				`null`: "", `""`: "", `0`: "", ` `: "", `{} {}`: "",
			} {
				for _, path := range []string{cratePath + "/a", cratePath} {
					s.do("DELETE", path, body).refused(400, "BadRequest", strings.ReplaceAll(text, `\"`, `"`))
				}
			}
			for _, body := range []string{"dryrun: [All]\n", "dryRun:\n", "preconditions: {UID: x}\n", "'dryRun ': [All]\n"} {
				s.do("DELETE", cratePath, body, "Content-Type", "application/yaml").refused(400, "BadRequest", "")
			}
			for _, body := range []string{`{"dryRun":["all"]}`, `{"dryRun":["All "]}`, `{"propagationPolicy":"orphan"}`, `{"propagationPolicy":""}`} {
				s.do("DELETE", cratePath, body).refused(422, "Invalid", "")
			}
			for _, body := range []string{`{"preconditions":{"uid":""}}`, `{"preconditions":{"uid":"x"}}`, `{"preconditions":{"resourceVersion":""}}`} {
				s.do("DELETE", cratePath+"/a", body).refused(409, "Conflict", "")
			}
		})
	})
}

// Whoever sends a condition in a header relies on it.
func TestS28_ConditionsInHeaders(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.untouched(cratePath, func() {
			for what, r := range writesFor(t) {
				for _, header := range [][2]string{
					{"If-Match", `"1"`},
					{"If-Match", "*"},
					{"If-None-Match", "*"},
					{"If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"},
					{"Range", "items=0-1"},
					{"Content-Range", "bytes 0-1/2"},
					{"X-HTTP-Method-Override", "GET"},
					{"X-HTTP-Method", "PATCH2"},
					{"X-Method-Override", "get"},
					{"Dry-Run", "All"},
					{"X-Dry-Run", "true"},
				} {
					a := s.ask1(r, header[0], header[1])
					require.Equal(t, 400, a.code, "%s with %s: %s", what, header[0], a)
				}
				if r.body != "" {
					require.Equal(t, 415, s.ask1(r, "Content-Encoding", "gzip").code, what)
				}
			}
		})
		for _, header := range [][2]string{{"If-Match", `"1"`}, {"Range", "bytes=0-1"}, {"X-HTTP-Method-Override", "DELETE"}} {
			s.do("GET", cratePath+"/a", "", header[0], header[1]).is(200)
			s.get(cratePath + "/a").is(200) // Z13
		}
	})
}

// A boolean of a write is true or false and nothing else.
func TestS11_S27_ForceIsTrueOrFalse(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		apply := func(manager, force string, size string) *answer {
			return s.do("PATCH", cratePath+"/a?fieldManager="+manager+force, crateJSON("a", `"size":`+size), "Content-Type", applyType)
		}
		apply("first", "", "1").is(201)
		for _, force := range []string{"no", "off", "n", "f", "null", "none", "", "2", "00", "-1", "true%20", "falsee", "0.0", "tru", "yes", "%D9%A1"} {
			apply("second", "&force="+force, "2").refused(400, "BadRequest", "force")
		}
		apply("second", "&force", "2").refused(400, "BadRequest", "force")
		for _, force := range []string{"", "&force=false", "&force=0", "&force=False"} {
			apply("second", force, "2").refused(409, "Conflict", "")
		}
		for i, force := range []string{"true", "1", "True"} {
			apply("second", "&force="+force, []string{"2", "3", "4"}[i]).is(200)
			apply("first", "&force=true", "1").is(200)
		}
	})
}

// NewerOptions are DeleteOptions with an option that this server does not know.
type NewerOptions struct {
	DryRun    []string `json:"dryRun,omitempty" protobuf:"bytes,5,rep,name=dryRun"`
	OnlyIdle  *bool    `json:"onlyIdle,omitempty" protobuf:"varint,60,opt,name=onlyIdle"`
	Condition *struct {
		Generation int64 `json:"generation" protobuf:"varint,9,opt,name=generation"`
	} `json:"preconditions,omitempty" protobuf:"bytes,2,opt,name=preconditions"`
}

func TestS2_UnknownOptionsInProtobuf(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(leasePath, `{"metadata":{"name":"a"}}`)
		s.untouched(leasePath, func() {
			for _, options := range []string{`{"onlyIdle":true}`, `{"dryRun":["All"],"onlyIdle":false}`, `{"preconditions":{"generation":1}}`} {
				body := encoded[NewerOptions](t, "v1", "DeleteOptions", options)
				for _, path := range []string{leasePath, leasePath + "/a"} {
					s.do("DELETE", path, body, "Content-Type", asProtobuf).refused(400, "BadRequest", "is unknown")
				}
			}
			body := encoded[NewerOptions](t, "v1", "DeleteOptions", `{"dryRun":["All"]}`)
			s.do("DELETE", leasePath+"/a", body, "Content-Type", asProtobuf).is(200)
		})
	})
}

// Breaking is the body of an action with options of its own and those of a deletion.
type Breaking struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	DeleteOptions *meta.DeleteOptions `json:"deleteOptions,omitempty"`
	SparePieces   bool                `json:"sparePieces,omitempty"`
	Limits        map[string]string   `json:"limits,omitempty"`
	Rest          []Breaking          `json:"rest,omitempty" preserveUnknown:""`
}

// The options of actions are options too.
func TestS23_OptionsOfActions(t *testing.T) {
	var broken atomic.Int64
	action := registry.Action[Widget, Breaking, meta.Status]{
		Name: "break", Run: func(ctx context.Context, call *registry.Call[Widget], b *Breaking) (*meta.Status, error) {
			if call.DryRun {
				return nil, nil
			}
			broken.Add(1)
			o := registry.DeleteOptions{}
			if d := b.DeleteOptions; d != nil && d.PropagationPolicy != nil {
				o.Propagation = *d.PropagationPolicy
			}
			of := call.Target
			of.Subresource = ""
			_, err := call.Objects.Delete(ctx, of, o)
			return nil, err
		},
	}
	put := action
	put.Name, put.Verb = "crush", "update"
	kind := widgets()
	kind.Plural, kind.Names.Kind, kind.Names.ShortNames = "vases", "Vase", nil
	kind.Subresources = []registry.Endpoint{action, put}
	onEach(t, func(t *testing.T, s *server) {
		const path = "/apis/shop.example.com/v1/namespaces/default/vases"
		s.create(path, `{"metadata":{"name":"a"},"spec":{"color":"red"}}`)
		broken.Store(0)
		s.untouched(path, func() {
			for _, body := range []string{
				`{"deleteoptions":{"dryRun":["All"]}}`, `{"DeleteOptions":{}}`, `{"deleteOption":{}}`, `{"deleteOptions":{"dryrun":["All"]}}`,
				`{"deleteOptions":{"dryRun":[]}}`, `{"deleteOptions":{"dryRun":null}}`, `{"deleteOptions":{"dryRun":["all"]}}`,
				`{"deleteOptions":{"preconditions":{"UID":"x"}}}`, `{"deleteOptions":{"propagationPolicy":""}}`,
				`{"deleteOptions":{"propagationPolicy":"orphan"}}`, `{"deleteOptions":{"gracePeriodSeconds":null}}`,
				`{"deleteOptions":{"dryRun":["All"]},"deleteOptions":{}}`, `{"deleteOptions":{"dryRun":["All"],"dryRun":["All"]}}`,
				`{"sparepieces":true}`, `{"SparePieces":true}`, `{"spare_pieces":true}`, `{"sparePeices":true}`, `{"sparePieces":true,"sparePieces":false}`,
				`{"dryRun":["All"]}`, `{"dryrun":true}`, `{"preconditions":{"uid":"x"}}`, `{"metadata":{"dryRun":["All"]}}`, `{"metadata":{"UID":"x"}}`,
				`{"gracePeriodSeconds":5}`, `{"propagationPolicy":"Orphan"}`,
				`{"options":{"dryRun":["All"]}}`, `{"spec":{"more":[{"dryrun":true}]}}`, `{"request":{"preconditions":{"uid":"x"}}}`,
			} {
				for _, query := range []string{"", "?fieldValidation=Ignore", "?fieldValidation=Warn"} {
					s.do("POST", path+"/a/break"+query, body).refused(400, "BadRequest", "")
					s.do("PUT", path+"/a/crush"+query, body).refused(400, "BadRequest", "")
				}
			}
			broken.Store(0) // what reached the engine with a policy that is none
			for _, query := range []string{
				"dryrun=All", "dry-run=All", "dryRun[]=All", "=All", "propagationPolicy=Orphan", "gracePeriodSeconds=1", "uid=x", "resourceVersion=1",
				"labelSelector=a", "preconditions.uid=x", "propagationpolicy=Orphan",
			} {
				s.do("POST", path+"/a/break?"+query, "{}").refused(400, "BadRequest", "")
				s.do("POST", path+"/a/break?"+query, "").refused(400, "BadRequest", "")
				s.do("PUT", path+"/a/crush?"+query, "{}").refused(400, "BadRequest", "")
			}
			for _, conditions := range []string{`"uid":"x"`, `"resourceVersion":"1"`} { // an earlier object, or state
				s.do("POST", path+"/a/break", `{"metadata":{`+conditions+`}}`).refused(409, "Conflict", "Precondition failed")
				s.do("POST", path+"/a/break?dryRun=All", `{"metadata":{`+conditions+`}}`).refused(409, "Conflict", "Precondition failed")
				s.do("PUT", path+"/a/crush", `{"metadata":{"name":"a",`+conditions+`}}`).refused(409, "Conflict", "Precondition failed")
			}
			for _, nameless := range []string{"", "{}", `{"metadata":{}}`, `{"sparePieces":true}`} { // what an empty document would clear
				s.do("PUT", path+"/a/crush", nameless).refused(400, "BadRequest", "name")
			}
			s.do("POST", path+"/a/break?dryRun=", "").refused(422, "Invalid", "dryRun")
			s.do("POST", path+"/a/break", "{}", "If-Match", "*").refused(400, "BadRequest", "If-Match")
			s.do("POST", path+"/a/break?dryRun=All", "").is(201)
		})
		require.Zero(t, broken.Load())
		s.do("POST", path+"/a/break?pretty=true&alt=json", `{"deleteOptions":{"dryRun":["All"]},"limits":{"dryrun":"x"},"metadata":{"annotations":{"dryRun":""}},"colour":"unknown, and like no other"}`).is(201)
		require.EqualValues(t, 1, broken.Load(), "other unknown fields are warned about, as in Kubernetes")
	}, kindwright.Serve(kind))
}

// A dry run of what cannot be stored fails as the write does. A patch makes more of an object than
// one body may be.
func TestS15_DryRunsRejectWhatIsTooLarge(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		text := strings.Repeat("n", 5<<19) // 2.5 MiB; a record has at most 4
		s.do("POST", cratePath, `{"metadata":{"name":"a"},"spec":{"text":"`+text+`"}}`).is(201)
		s.untouched(cratePath, func() {
			for _, query := range []string{"", "?dryRun=All"} {
				s.do("PATCH", cratePath+"/a"+query, `{"spec":{"notes":{"x":"`+text+`"}}}`, "Content-Type", mergeType).refused(413, "RequestEntityTooLarge", "limit")
				s.do("PATCH", cratePath+"/a"+query, `[{"op":"copy","from":"/spec/text","path":"/spec/owner2"},{"op":"add","path":"/spec/notes","value":{"x":"`+text+`"}}]`, "Content-Type", jsonPatchType).refused(413, "RequestEntityTooLarge", "limit")
			}
			s.do("PATCH", cratePath+"/a?dryRun=All", `{"spec":{"size":2}}`, "Content-Type", mergeType).is(200)
		})
	})
}
