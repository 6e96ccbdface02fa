package serviceaccount

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Paths of the documents.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// Documents serves the issuer's OpenID Connect configuration and its keys, with which others check its
// tokens. Give it to kindwright.Before with the link "body", after requests are authorized:
// the role system:service-account-issuer-discovery of Kubernetes allows service accounts to read them.
//
// The first issuer must be an https URL without a query and a fragment. keysURL is where others find the
// keys: an https URL that ends with [KeysPath] unless somebody else serves them.
// Source: SAT-06.
func (t *Tokens) Documents(keysURL string) (func(next http.Handler) http.Handler, error) {
	for what, text := range map[string]string{"the issuer": t.options.Issuers[0], "the URL of the keys": keysURL} {
		switch u, err := url.Parse(text); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case u.Scheme != "https":
			return nil, fmt.Errorf("%s must use https scheme, got: %s", what, text)
		case what == "the issuer" && (u.RawQuery != "" || u.Fragment != ""):
			return nil, fmt.Errorf("%s may not include a query or a fragment, got: %s", what, text)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path := strings.TrimSuffix(r.URL.Path, "/")
			switch {
			case path != ConfigurationPath && path != KeysPath:
				next.ServeHTTP(w, r)
			case r.Method != http.MethodGet && r.Method != http.MethodHead:
				w.Header().Set("Allow", "GET, HEAD")
				http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			case path == ConfigurationPath:
				text, err := t.configuration(keysURL)
				if err != nil {
					http.Error(w, "the configuration cannot be written", http.StatusInternalServerError)
					return
				}
				answer(w, "application/json", text)
			default:
				answer(w, "application/jwk-set+json", t.options.Keys.Keys().document)
			}
		})
	}, nil
}

// answer writes a document that others may keep for an hour.
func answer(w http.ResponseWriter, media string, text []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(text) // the client may have gone
}

// configuration returns the document of ConfigurationPath.
func (t *Tokens) configuration(keysURL string) ([]byte, error) {
	return json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		KeysURL       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{t.options.Issuers[0], keysURL, []string{"id_token"}, []string{"public"}, t.options.Keys.Keys().published})
}
