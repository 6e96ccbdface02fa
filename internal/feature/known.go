package feature

// Stage says how much a feature can be relied on.
type Stage string

// The stages of a feature.
const (
	Alpha      Stage = "Alpha"      // off unless it is switched on; may change or go
	Beta       Stage = "Beta"       // tested; mostly on
	Stable     Stage = "Stable"     // here to stay
	Deprecated Stage = "Deprecated" // on its way out
)

// Change is what a release made of a feature.
type Change struct {
	Since   Release
	Stage   Stage
	Default bool // on, where nothing is said
	Locked  bool // and nothing can be said
}

// Feature is one feature and its history, the earliest release first.
type Feature struct {
	Name    string
	Gate    bool // it can be named in --feature-gates
	History []Change
	Doc     string // what it is; for a gate, what it switches
}

// The gates that this library looks at itself.
const (
	WatchList           = "WatchList"
	ResponseCompression = "APIResponseCompression"
)

// Known returns the features, by name. The gates of authentication and authorization are known for
// the sake of command lines that name them: nothing depends on them as long as there is no
// structured configuration of either.
func Known() []Feature {
	r := func(minor int) Release { return Release{1, minor} }
	return []Feature{
		{ResponseCompression, true, []Change{{r(8), Alpha, false, false}, {r(16), Beta, true, false}}, "answers are compressed for clients that accept gzip"},
		{"APIListChunking", true, []Change{{r(8), Alpha, false, false}, {r(9), Beta, true, false}, {r(29), Stable, true, true}}, "lists come in chunks: limit and continue"},
		{"AnonymousAuthConfigurableEndpoints", true, []Change{{r(31), Alpha, false, false}, {r(32), Beta, true, false}, {r(34), Stable, true, true}}, "anonymous requests are limited to some paths"},
		{"HealthzEndpoint", false, []Change{{r(16), Deprecated, true, true}}, "/healthz, which /livez and /readyz replace"},
		{"IndividualHealthChecks", false, []Change{{r(31), Alpha, true, true}}, "each health check has a path of its own"},
		{"ResourceVersionMatch", false, []Change{{r(19), Stable, true, true}}, "the parameter resourceVersionMatch of lists"},
		{"ServerSideApply", true, []Change{{r(14), Alpha, false, false}, {r(16), Beta, true, false}, {r(22), Stable, true, true}}, "apply patches and managed fields"},
		{"StructuredAuthenticationConfiguration", true, []Change{{r(29), Alpha, false, false}, {r(30), Beta, true, false}, {r(34), Stable, true, true}}, "authentication from a configuration file"},
		{"StructuredAuthorizationConfiguration", true, []Change{{r(29), Alpha, false, false}, {r(30), Beta, true, false}, {r(32), Stable, true, true}}, "authorization from a configuration file"},
		{
			WatchList, true,
			[]Change{{r(27), Alpha, false, false}, {r(32), Beta, true, false}, {r(33), Beta, false, false}, {r(34), Beta, true, false}},
			"watches that begin with what there is: sendInitialEvents",
		},
	}
}

// since is the release in which the feature came to a stage; zero if it never did.
func (f *Feature) since(s Stage) Release {
	for _, c := range f.History {
		if c.Stage == s {
			return c.Since
		}
	}
	return Release{}
}

// at returns what a release made of the feature; false when the release did not have it yet.
func (f *Feature) at(r Release) (Change, bool) {
	for i := len(f.History) - 1; i >= 0; i-- {
		if f.History[i].Since.Compare(r) <= 0 {
			return f.History[i], true
		}
	}
	return Change{}, false
}
