package layers

import "path"

// A room is a package, or with a trailing "/*" the packages one level below, and
// the reason it has a place in the house.
type room struct {
	path string
	why  string

	// std: imports the standard library and nothing else, so that anybody can
	// read it first and nobody inherits a dependency from it.
	std bool
	// tests: written for tests; only test files and other such rooms import it.
	tests bool
	// chosen: a storage backend. The person who writes the program chooses one,
	// so only the top floor and tests import it.
	chosen bool
}

// house lists the floors from the ground up. A package imports packages of lower
// floors; see sameFloor for the few edges within one.
var house = [...][]room{
	0: {
		{path: "meta", std: true, why: "the nouns: kinds, names, object metadata, selectors, options, Status, Table"},
		{path: "storage", std: true, why: "bytes, keys, revisions: the driver contract and the portable Store"},
		{path: "tracing", std: true, why: "what a server tells about the way of its requests"},
		{path: "metrics", std: true, why: "what a scrape returns, for adapters to other systems"},
		{path: "health", why: "named checks and their handlers; says through logr which check failed and why"},
		{path: "internal/json", why: "door: JSON"},
		{path: "internal/tree", why: "reads and copy-on-write changes of decoded objects"},
		{path: "internal/clip", std: true, why: "truncates text from clients"},
		{path: "internal/spelling", std: true, why: "names of header fields, however they are spelled"},
		{path: "internal/tables", std: true, why: "what a regular expression takes to be read"},
		{path: "internal/words", std: true, why: "what is wrong with a name, in the words of Kubernetes"},
		{path: "internal/nearly", std: true, why: "what a misspelt name was probably meant to be"},
		{path: "internal/guard", std: true, why: "panics and nil values of what users wrote"},
		{path: "internal/batch", std: true, why: "records that wait until they are delivered together"},
		{path: "internal/memo", std: true, why: "answers of other servers, shared and remembered for a while"},
		{path: "internal/pause", std: true, why: "waits before a retry"},
		{path: "internal/ctxlock", std: true, why: "a mutex that a caller can stop waiting for"},
		{path: "internal/yaml", why: "door: YAML"},
		{path: "internal/ordered", why: "door: the ordered copy-on-write map"},
		{path: "internal/protowire", why: "door: protobuf's wire format"},
		{path: "internal/metrics", std: true, why: "counters, gauges, histograms and their text form"},
		{path: "internal/proof", std: true, why: "what tokens prove, so that a signature is verified once"},
		{path: "internal/hookcontext", std: true, why: "what the context of a hook has"},
		{path: "internal/selfsigned", std: true, why: "certificates for first steps, where nobody gave one"},
		{path: "internal/profile", std: true, why: "the runtime's profiles over HTTP"},
		{path: "internal/certfile", std: true, why: "serving certificates from files, read again when these change"},
		{path: "internal/files", std: true, why: "certificates, keys and tokens on disk: synced, and safe from other users"},
		{path: "internal/leak", std: true, tests: true, why: "goroutines that a test left behind"},
		{path: "internal/random", std: true, tests: true, why: "properties checked against random input"},
		{path: "internal/linear", std: true, tests: true, why: "whether a history of concurrent calls is linearizable"},
		{path: "internal/effort", std: true, tests: true, why: "how much of a long test runs under the race detector"},
		{path: "internal/layers", std: true, tests: true, why: "this test"},
	},
	1: {
		{path: "internal/threeway", std: true, why: "a change of a part of an object, made in the whole"},
		{path: "internal/threeway/threewaytest", std: true, tests: true, why: "random objects, and changes of what is shown of them"},
		{path: "status", why: "API errors, field errors, their wire form"},
		{path: "storage/memory", chosen: true, why: "a backend in memory, the second definition of the contract"},
		{path: "storage/bbolt", chosen: true, why: "a backend in one file"},
		{path: "internal/watches", why: "the watches of a store whose commits are in one process"},
		{path: "internal/unary", why: "methods of gRPC on a Unix socket"},
		{path: "storage/copy", std: true, why: "moves a store into another one while it is served"},
		{path: "storage/storagetest", tests: true, why: "the one suite for every backend and wrapper"},
		{path: "authn", why: "who is asking"},
		{path: "internal/metrics/apiserver", std: true, why: "the families of an API server, under the names that dashboards ask for"},
		{path: "internal/cbor", why: "documents in JSON as CBOR, and back"},
		{path: "internal/typed", why: "decoded objects as Go structs"},
		{path: "internal/flow", std: true, why: "what clients take at once: requests in flight, the memory of bodies"},
		{path: "internal/issuer", tests: true, why: "an issuer of signed tokens, with its keys and its failures"},
		{path: "internal/jws", why: "door: signatures of tokens, and sets of keys"},
		{path: "internal/feature", why: "features by release, gates, which versions are served"},
	},
	2: {
		{path: "openapi", why: "schemas: from Go types and documents; default, prune, validate, publish"},
		{path: "authz", why: "may they"},
		{path: "internal/lead", why: "which of the processes on one store does the work in the background"},
		{path: "internal/forms", why: "in which form the processes on one store write their records"},
		{path: "internal/entries", why: "the rules of config maps and secrets, for Go types of any package"},
		{path: "client", why: "typed client over HTTP"},
		{path: "storage/encrypt", why: "values encrypted in any backend, in Kubernetes' form"},
		{path: "internal/config", why: "documents that configure a server: strict, by version, read again when they change"},
		{path: "internal/request", why: "the one strict parse of a request, and the value that carries all that is known about it"},
	},
	3: {
		{path: "cel", why: "expressions within a budget"},
		{path: "apply", why: "server-side apply and managed fields, without I/O"},
		{path: "watch", why: "the live view of one resource"},
		{path: "audit", why: "who did what"},
		{path: "egress", why: "which tunnel the server's connections to other servers go through"},
		{path: "internal/connection", why: "connections to webhooks: connection files, bounded posts, retries"},
		{path: "internal/mirror", why: "objects of another server, kept at hand"},
		{path: "internal/patch", why: "JSON patch and merge patch with limits"},
		{path: "internal/negotiate", why: "media types, encodings, compression"},
		{path: "internal/table", why: "the Table form of objects"},
		{path: "internal/jsonpath", why: "Kubernetes' dialect of JSONPath"},
		{path: "internal/protobuf", why: "the protobuf form of objects, from the tags of Go types"},
	},
	4: {
		{path: "authn/*", why: "one way to authenticate each"},
		{path: "config/*", why: "the documents of schedulers, proxies and controller managers, and what these have in common"},
		{path: "flowcontrol", why: "flow schemas and priority levels: which requests wait for which"},
		{path: "authz/*", why: "one way to authorize each"},
		{path: "audit/*", why: "one place to store records each"},
		{path: "admission", why: "the chain that mutates and validates"},
		{path: "internal/webhook", why: "webhooks that objects of the API configure: their addresses, and the conversion of custom resources"},
		{path: "internal/feed", why: "what an index of objects is told"},
		{path: "internal/manifest", why: "objects of files, for what is configured outside of the API"},
		{path: "admission/*", why: "one plugin each"},
		{path: "watch/watchtest", tests: true, why: "helpers for tests of watches"},
		{path: "egress/egresstest", tests: true, why: "a tunnel server"},
	},
	5: {
		{path: "registry", why: "what users write: kinds, resources, forms, endpoints, definitions; the face of the engine, and Go structs in front of it"},
		{path: "authn/serviceaccount/external", why: "tokens that another process signs, by Kubernetes' protocol"},
		{path: "internal/auditflags", why: "kube-apiserver's flags for audit"},
		{path: "internal/engine", why: "the engine: compiled kinds, the resource set and its changes, the lists of steps"},
	},
	6: {
		{path: "internal/authnflags", why: "kube-apiserver's flags for signed tokens and anonymous requests"},
		{path: "registry/connect", why: "subresources that clients connect to: upgrades and WebSockets"},
		{path: "internal/rest", why: "the engine's HTTP handlers"},
		{path: "internal/discovery", why: "which resources there are, for clients"},
		{path: "internal/gc", why: "owner references"},
	},
	7: {
		{path: "kinds", why: "registers the built-in kinds"},
		{path: "aggregate", why: "answers for other API servers"},
		{path: "kinds/crd", why: "kinds that arrive while a server runs"},
		{path: "config", why: "finds, decodes and dispatches configuration files"},
	},
	8: {
		{path: ".", why: "the roof: composition only"},
		{path: "internal/encryptionflags", why: "kube-apiserver's flags for encryption at rest"},
		{path: "extension", why: "an extension server behind a Kubernetes aggregator, in one call"},
		{path: "internal/accessflags", why: "kube-apiserver's flags for authorization and token webhooks"},
	},
	9: {
		{path: "apitest", why: "an API server inside a test of the people who use us"},
		{path: "internal/remotestore", std: true, why: "a store of another process, for the suites of the core"},
		{path: "internal/conformance", std: true, tests: true, why: "each requirement on the protocol, over HTTP, on every backend"},
		{path: "internal/differential", std: true, tests: true, why: "the same random requests to two servers, one of which may be Kubernetes'"},
		{path: "internal/crashtest", std: true, tests: true, why: "power cuts, kills, torn pages, failed syncs and full disks, and what is left then"},
		{path: "internal/soak", std: true, tests: true, why: "every event of a whole server under random load, checked"},
		{path: "scripts/sbom", why: "what a program of a release consists of"},
		{path: "examples", std: true, why: "says which programs there are"},
		{path: "examples/internal/program", why: "what examples/server and examples/cluster have in common: kinds, flags, certificates"},
		{path: "examples/*", why: "programs to copy from; each compiles, runs and is tested"},
	},
}

// An edge is one import, allowed or refused, and the reason.
type edge struct{ from, to, why string }

// sameFloor lists the imports allowed between two rooms of one floor.
var sameFloor = []edge{
	{"extension", ".", "it makes options of a server, and runs one"},
	{"examples/server", "examples/internal/program", "a command adds to the program where objects are kept"},
	{"internal/yaml", "internal/json", "YAML is read by way of JSON, whose door decides about duplicates and numbers"},
	{"internal/json", "internal/clip", "every message truncates text in the same way"},
	{"internal/yaml", "internal/clip", "every message truncates text in the same way"},
	{"internal/tree", "internal/clip", "every message truncates text in the same way"},
	{"internal/certfile", "internal/files", "keys are secrets"},
	{"health", "internal/guard", "a check is a function of a user"},
	{"internal/metrics", "metrics", "a registry is a source"},
	{"storage/memory", "internal/watches", "both backends make their commits themselves"},
	{"storage/bbolt", "internal/watches", "both backends make their commits themselves"},
	{"authn", "status", "the middleware answers 401 with a Status document"},
	{"internal/request", "authz", "the exchange of a request carries the authorizer's decision"},
	{"internal/negotiate", "internal/protobuf", "errors are written in what the client accepts, protobuf among it"},
	{"config/*", "config/component", "schedulers, proxies and controller managers have parts in common"},
	{"authn/delegated", "authn/*", "a host knows users by the fields of a front proxy, by certificates and by tokens"},
	{"authz/delegated", "authz/webhook", "a host is a webhook with policies of its own"},
	{"admission/*", "admission", "a plugin implements the chain's interface"},
	{"admission/policy", "admission/match", "a policy says which writes it is about"},
	{"admission/policy", "internal/feed", "policies are objects of the server"},
	{"admission/policy", "internal/manifest", "policies can come from files"},
	{"admission/webhook", "admission/match", "a webhook says which writes it is about"},
	{"admission/webhook", "internal/feed", "the configurations of webhooks are objects of the server"},
	{"admission/webhook", "internal/manifest", "configurations of webhooks can come from files"},
	{"admission/webhook", "internal/webhook", "a webhook has an address and certificates"},
	{"internal/engine", "registry", "the engine compiles what is described there"},
	{"internal/rest", "registry/connect", "a watch can be a WebSocket"},
}

// never lists the imports that the floors would allow and the design does not.
// The right side is a package of ours, or of the standard library.
var never = []edge{
	{"registry", "net/http", "kinds do not know HTTP; connections are in registry/connect"},
	{"internal/engine", "net/http", "the engine does not know HTTP; its handlers are in internal/rest"},
	{"storage/*", "meta", "storage knows bytes, keys and revisions, not objects"},
	{"storage/*", "status", "storage returns facts; the ring in status turns them into API errors"},
	{"storage/*", "internal/json", "storage does not look into values"},
}

// A door is the one package that imports a third-party module, so that replacing
// the module is a change to one package and its types stay out of our API.
type door struct{ module, room, why string }

var doors = []door{
	{"github.com/go-json-experiment/json", "internal/json", "becomes encoding/json/v2; until then one options value decides what JSON means"},
	{"sigs.k8s.io/json", "internal/json", "reports every duplicate and unknown field"},
	{"sigs.k8s.io/yaml", "internal/yaml", "size and aliases are bounded before it sees a document"},
	{"github.com/tidwall/btree", "internal/ordered", "its Copy writes to the original: one place that knows"},
	{"google.golang.org/protobuf", "internal/protowire", "only encoding/protowire is linked"},
	{"go.etcd.io/bbolt", "storage/bbolt", "checksums and latches stand around every call"},
	{"golang.org/x/sys", "storage/bbolt", "file locks and syncs"},
	{"github.com/evanphx/json-patch/v5", "internal/patch", "operations and copied bytes are bounded first"},
	{"github.com/klauspost/compress", "internal/negotiate", "gzip at half the processor time"},
	{"github.com/google/cel-go", "cel", "its module path changes after v0.31: one package's business"},
	{"sigs.k8s.io/structured-merge-diff/v4", "apply", "schemas are walked once before they are shared"},
	{"github.com/go-jose/go-jose/v4", "internal/jws", "algorithms are listed and headers bounded before it sees a token"},
	{"golang.org/x/crypto", "storage/encrypt", "secretbox, which the standard library has not"},
	{"golang.org/x/time", "internal/flow", "rates"},
}

// free lists the modules any package may import.
var free = []string{
	"github.com/go-logr/logr", // a logger is passed in everywhere
}

// testOnly lists the modules that only test files and rooms made for tests import.
var testOnly = []string{
	"github.com/stretchr/testify",
}

// leaves lists what the core may require from the Kubernetes organisations:
// libraries that do not depend on k8s.io modules themselves.
var leaves = []string{
	"sigs.k8s.io/yaml",
	"sigs.k8s.io/json",
	"sigs.k8s.io/structured-merge-diff/v4",
	"sigs.k8s.io/randfill", // only in go.mod: structured-merge-diff's tests need it
}

// state lists the package variables that hold state all the same, as
// "directory.name", each with its reason.
var state = map[string]string{
	"internal/engine.scratch":  "a pool of scratch buffers; nothing in it outlives a call",
	"internal/json.buffers":    "a pool of scratch buffers; nothing in it outlives a call",
	"internal/json.structures": "how Go types become trees, compiled once for each type of the program",
	"internal/json.decoders":   "a pool of decoders, reset before each use",
	"internal/json.encoders":   "a pool of encoders, reset before each use",
	"internal/jws.claims":      "a pool of scratch room for claims that nobody has verified; cleared after each use",
	"cel.bases":                "environments of rules, made on first use and the same for all kinds; each takes a millisecond",
	"openapi.meanings":         "a pool of scratch buffers; nothing in it outlives a call",
	"openapi.objectParts":      "schemas of the metadata, which are the same for all kinds and never changed",
	"openapi.sharedOnce":       "made of the types of package meta on first use, the same in every process",
	"watch.splices":            "a pool of scratch buffers; nothing in it outlives a call",
}

// place finds the room for the package in dir: the exact entry before a pattern.
func place(dir string) (floor int, found room, ok bool) {
	for f, rooms := range house {
		for _, r := range rooms {
			if r.path == dir {
				return f, r, true
			}
			if match(r.path, dir) {
				floor, found, ok = f, r, true
			}
		}
	}
	return floor, found, ok
}

func match(pattern, dir string) bool {
	ok, err := path.Match(pattern, dir)
	return ok && err == nil
}

// reason returns why the first edge from one package to the other is listed.
func reason(edges []edge, from, to string) (why string, listed bool) {
	for _, e := range edges {
		if match(e.from, from) && match(e.to, to) {
			return e.why, true
		}
	}
	return "", false
}

// apart names the modules whose versions are another program's: they agree with those
// that have the same reason, and with no others.
var apart = map[string]string{
	"internal/tools":     "the linters, each with the versions its makers test it with",
	"internal/crdoracle": "Kubernetes 1.36",
	"internal/celoracle": "Kubernetes 1.36",
	"internal/encoracle": "Kubernetes 1.36",
}

type pin struct{ dir, module string }

// pinned is what one module needs in a version of its own.
var pinned = []pin{
	{"internal/celoracle", "github.com/google/cel-go"}, // the one that Kubernetes 1.36 is built with
}
