package authnflags

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/serviceaccount/external"
	"github.com/kindwright/kindwright/health"
)

// ServiceAccounts are the values of the flags of service accounts.
type ServiceAccounts struct {
	issuers, keyFiles arrayValue
	audiences         stringSliceValue
	signingKey        string
	endpoint          string
	signer            *external.Signer
	keys              *serviceaccount.KeyFiles // nil until they are opened, and without any
	keysURL           string
	lookup, extend    bool
	longest           time.Duration
	given             bool
}

// Add adds the flags to a set.
// Source: SAT-05, FLAG-09.
func (f *ServiceAccounts) Add(set *flag.FlagSet) {
	f.audiences.given = &f.given
	set.Var(&f.issuers, "service-account-issuer",
		"who the tokens of service accounts are from; the first is written into them, all are accepted (may be given several times)")
	set.StringVar(&f.signingKey, "service-account-signing-key-file", "",
		"PEM file of the private key that signs tokens of service accounts; without it there are none; read again when it changes")
	set.StringVar(&f.endpoint, "service-account-signing-endpoint", "",
		"Unix socket of a process that signs tokens of service accounts and publishes their keys, instead of files (Kubernetes' protocol for external signers, v1)")
	set.Var(&f.keyFiles, "service-account-key-file",
		"PEM file of keys that the tokens of service accounts may be signed with; read again when it changes (may be given several times; default --service-account-signing-key-file)")
	set.BoolVar(&f.lookup, "service-account-lookup", true,
		"whether a token of a Secret needs that Secret and its account; the objects of other tokens are always looked up")
	set.StringVar(&f.keysURL, "service-account-jwks-uri", "",
		"https URL of the keys of --service-account-issuer, for /.well-known/openid-configuration (default /openid/v1/jwks of this server)")
	set.DurationVar(&f.longest, "service-account-max-token-expiration", 0,
		"how long tokens of service accounts may be valid; longer ones are shortened (default no limit)")
	set.BoolVar(&f.extend, "service-account-extend-token-expiration", true,
		"whether a token for a pod that nodes ask for is valid for a year, for programs that read it once")
	set.Var(&f.audiences, "api-audiences", "whom tokens are for that do not say it (default --service-account-issuer)")
}

// Check reports wrong values and flags that contradict each other.
func (f *ServiceAccounts) Check() (problems []error) {
	for i, issuer := range f.issuers {
		if _, err := url.Parse(issuer); strings.Contains(issuer, ":") && err != nil {
			problems = append(problems, fmt.Errorf("--service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err))
		}
		if issuer == "" {
			problems = append(problems, errors.New("--service-account-issuer should not be an empty string"))
		}
		if slices.Contains(f.issuers[:i], issuer) {
			problems = append(problems, fmt.Errorf("--service-account-issuer %q is already specified", issuer))
		}
	}
	if f.signingKey != "" && len(f.issuers) == 0 {
		problems = append(problems, errors.New("--service-account-signing-key-file and --service-account-issuer belong together: the latter is missing"))
	}
	if len(f.keyFiles) > 0 && len(f.issuers) == 0 {
		problems = append(problems, errors.New("--service-account-key-file and --service-account-issuer belong together: the latter is missing"))
	}
	if f.endpoint != "" && f.signingKey != "" {
		problems = append(problems, errors.New("can't set `--service-account-signing-key-file` and `--service-account-signing-endpoint` at the same time"))
	}
	if f.endpoint != "" && len(f.keyFiles) > 0 {
		problems = append(problems, errors.New("can't set `--service-account-key-file` and `--service-account-signing-endpoint` at the same time"))
	}
	if f.endpoint != "" && len(f.issuers) == 0 {
		problems = append(problems, errors.New("--service-account-signing-endpoint and --service-account-issuer belong together: the latter is missing"))
	}
	if f.keysURL != "" {
		if u, err := url.Parse(f.keysURL); err != nil {
			problems = append(problems, fmt.Errorf("--service-account-jwks-uri must be a valid URL: %w", err))
		} else if u.Scheme != "https" {
			problems = append(problems, fmt.Errorf("--service-account-jwks-uri requires https scheme, parsed as: %v", u))
		}
	}
	if slices.Contains(f.named(), "") {
		problems = append(problems, errors.New("--api-audiences: an audience must not be empty"))
	}
	if d := f.longest; d != 0 && (d < time.Hour || d > 1<<32*time.Second) {
		problems = append(problems, fmt.Errorf("--service-account-max-token-expiration %s: must be between 1 hour and 2^32 seconds", d))
	}
	return problems
}

// Given reports whether the flags name keys.
func (f *ServiceAccounts) Given() bool {
	return f.signingKey != "" || f.endpoint != "" || len(f.keyFiles) > 0
}

// Issuers returns the issuers, whose tokens no other authenticator may take.
func (f *ServiceAccounts) Issuers() []string { return f.issuers }

// Audiences returns the audiences of the server.
func (f *ServiceAccounts) Audiences() []string {
	if list := f.named(); len(list) > 0 {
		return list
	}
	return f.issuers
}

// named returns the audiences that the flag names. An empty text names none, as scripts write it that have
// nothing to say: it is not the audience whose name is empty, which no token would be for.
func (f *ServiceAccounts) named() []string {
	if list := f.audiences.list; len(list) != 1 || list[0] != "" {
		return list
	}
	return nil
}

// Open reads the keys. It returns nil if the flags name none. Close must be called afterwards.
func (f *ServiceAccounts) Open(log logr.Logger) (*serviceaccount.Tokens, error) {
	if !f.Given() {
		return nil, nil
	}
	if f.endpoint != "" {
		return f.openExternal(log)
	}
	keys, err := serviceaccount.Open(serviceaccount.Files{SigningKey: f.signingKey, Keys: f.keyFiles, Failed: func(err error) {
		log.Error(err, "a changed key file of service accounts cannot be read; its last good state counts")
	}})
	if err != nil {
		return nil, fmt.Errorf("--service-account-signing-key-file, --service-account-key-file: %w", err)
	}
	f.keys = keys
	return serviceaccount.New(serviceaccount.Options{
		Issuers: f.issuers, Audiences: f.named(), Keys: keys, Signer: keys.Signer(),
		MaxLifetime: f.longest, Extend: f.extend, Legacy: true, TrustLegacy: !f.lookup,
	})
}

// Checks returns the check of the key files that [ServiceAccounts.Open] has opened, if there are any.
func (f *ServiceAccounts) Checks() []health.Check {
	if f.keys == nil {
		return nil
	}
	return []health.Check{{Name: "service-account-key-file", Check: func(context.Context) error { return f.keys.Healthy() }}}
}

// signerPatience is how long a signer may take to listen: the two programs may start at once.
const signerPatience = time.Minute

// awaitSigner opens a signer again for as long as nobody listens. Other errors end it at once.
func awaitSigner(open func() (*external.Signer, error), patience time.Duration) (*external.Signer, error) {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		s, err := open()
		absent := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
		if !absent || time.Now().After(end) {
			return s, err
		}
	}
}

// openExternal asks the signer of --service-account-signing-endpoint.
func (f *ServiceAccounts) openExternal(log logr.Logger) (*serviceaccount.Tokens, error) {
	s, err := awaitSigner(func() (*external.Signer, error) {
		return external.Open(context.Background(), f.endpoint, func(err error) {
			log.Error(err, "the keys of service accounts cannot be fetched; the last ones count")
		})
	}, signerPatience)
	if err != nil {
		return nil, fmt.Errorf("--service-account-signing-endpoint: %w", err)
	}
	f.signer = s
	longest := s.MaxLifetime()
	switch {
	case f.longest > longest:
		f.Close()
		return nil, fmt.Errorf("--service-account-max-token-expiration %s: the signer allows at most %s", f.longest, longest)
	case f.longest > 0:
		longest = f.longest
	}
	return serviceaccount.New(serviceaccount.Options{
		Issuers: f.issuers, Audiences: f.named(), Keys: s, Signer: s,
		MaxLifetime: longest, Extend: f.extend, MaxExtended: s.MaxLifetime(), Legacy: true, TrustLegacy: !f.lookup,
	})
}

// Close ends what Open has begun.
func (f *ServiceAccounts) Close() {
	if f.signer != nil {
		f.signer.Close()
	}
}

// Documents serves what others need to check the tokens; see [serviceaccount.Tokens.Documents]. address
// is where clients find the server, a host and a port. It serves nothing, and the log says why, if there
// are no tokens or if the issuer is no URL under which others could look the documents up.
func (f *ServiceAccounts) Documents(t *serviceaccount.Tokens, log logr.Logger, address string) func(http.Handler) http.Handler {
	nothing := func(next http.Handler) http.Handler { return next }
	if t == nil {
		return nothing
	}
	keysURL := f.keysURL
	if keysURL == "" {
		keysURL = "https://" + address + serviceaccount.KeysPath
	}
	serve, err := t.Documents(keysURL)
	if err != nil {
		log.Info("The documents of the issuer of service accounts are not served.", "reason", err.Error())
		return nothing
	}
	return serve
}
