package feature

// Stage is the maturity of a feature.
type Stage string

// The stages of a feature.
const (
	Alpha      Stage = "Alpha"      // off by default; may change or disappear
	Beta       Stage = "Beta"       // tested; usually on
	Stable     Stage = "Stable"     // permanent
	Deprecated Stage = "Deprecated" // will be removed
)

// Milestone is the change of a feature in one release.
type Milestone struct {
	Since   Release
	Stage   Stage
	Default bool // on by default
	Locked  bool // cannot be changed
}

// Feature is one feature and its history, from the earliest release.
type Feature struct {
	Name    string
	Gate    bool // can be set in --feature-gates
	History []Milestone
	Doc     string // a description; for a gate, of what it switches
}

// The gates that this library tests itself.
const (
	WatchList = "WatchList"
	CBOR      = "CBORServingAndStorage"
	Shards    = "ShardedListAndWatch"

	ConstrainedImpersonation = "ConstrainedImpersonation"
	ResponseCompression      = "APIResponseCompression"
)

// Known returns the features, sorted by name. The gates of the configuration of authentication and
// authorization are for programs, which open the files.
func Known() []Feature {
	r := func(minor int) Release { return Release{1, minor} }
	return []Feature{
		{ResponseCompression, true, []Milestone{{r(8), Alpha, false, false}, {r(16), Beta, true, false}}, "answers are compressed for clients that accept gzip"},
		{"APIListChunking", true, []Milestone{{r(8), Alpha, false, false}, {r(9), Beta, true, false}, {r(29), Stable, true, true}}, "lists come in chunks: limit and continue"},
		{"AnonymousAuthConfigurableEndpoints", true, []Milestone{{r(31), Alpha, false, false}, {r(32), Beta, true, false}, {r(34), Stable, true, true}}, "anonymous requests are limited to some paths"},
		{CBOR, true, []Milestone{{r(32), Alpha, false, false}}, "requests and answers can be CBOR; what is stored stays JSON"},
		{ConstrainedImpersonation, true, []Milestone{{r(35), Alpha, false, false}, {r(36), Beta, true, false}}, "impersonation for some requests only: the verbs impersonate:<mode> and impersonate-on:<mode>:<verb>"},
		{"HealthzEndpoint", false, []Milestone{{r(16), Deprecated, true, true}}, "/healthz, which /livez and /readyz replace"},
		{"IndividualHealthChecks", false, []Milestone{{r(31), Alpha, true, true}}, "each health check has a path of its own"},
		{"ResourceVersionMatch", false, []Milestone{{r(19), Stable, true, true}}, "the parameter resourceVersionMatch of lists"},
		{"ServerSideApply", true, []Milestone{{r(14), Alpha, false, false}, {r(16), Beta, true, false}, {r(22), Stable, true, true}}, "apply patches and managed fields"},
		{Shards, true, []Milestone{{r(36), Alpha, false, false}}, "several clients share a collection by the hash of uids: shardSelector"},
		{"StructuredAuthenticationConfiguration", true, []Milestone{{r(29), Alpha, false, false}, {r(30), Beta, true, false}, {r(34), Stable, true, true}}, "authentication from a configuration file"},
		{"StructuredAuthorizationConfiguration", true, []Milestone{{r(29), Alpha, false, false}, {r(30), Beta, true, false}, {r(32), Stable, true, true}}, "authorization from a configuration file"},
		{
			WatchList, true,
			[]Milestone{{r(27), Alpha, false, false}, {r(32), Beta, true, false}, {r(33), Beta, false, false}, {r(34), Beta, true, false}},
			"watches that begin with what there is: sendInitialEvents",
		},
	}
}

// since returns the release in which the feature reached a stage, or zero if it never did.
func (f *Feature) since(s Stage) Release {
	for _, c := range f.History {
		if c.Stage == s {
			return c.Since
		}
	}
	return Release{}
}

// at returns the state of the feature in a release; false if the release does not have it yet.
func (f *Feature) at(r Release) (Milestone, bool) {
	for i := len(f.History) - 1; i >= 0; i-- {
		if f.History[i].Since.Compare(r) <= 0 {
			return f.History[i], true
		}
	}
	return Milestone{}, false
}
