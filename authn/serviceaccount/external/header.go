package external

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

// header is what a signer says about a signature. It says nothing else.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

// readHeader reads the header of a token, and reports what keeps the token from being handed out.
// The sentences are those of Kubernetes, since administrators look for them.
func readHeader(text string) (h header, err error) {
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return h, fmt.Errorf("while unwrapping header: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(plain)))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("while parsing header JSON: %w", err)
	}
	switch {
	case h.Type != "JWT":
		err = errors.New("bad type")
	case h.KeyID == "":
		err = errors.New("key id missing")
	case len(h.KeyID) > maxKeyID:
		err = errors.New("key id longer than 1 kb")
	case !slices.Contains([]string{"RS256", "ES256", "ES384", "ES512"}, h.Algorithm):
		err = fmt.Errorf("bad signing algorithm %q", h.Algorithm)
	}
	return h, err
}

// checkKey reports a key that only old tokens may be signed with: others could not find it.
func checkKey(id string, known []serviceaccount.PublicKey) error {
	if slices.ContainsFunc(known, func(k serviceaccount.PublicKey) bool { return k.ID == id && k.Unpublished }) {
		return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", id)
	}
	return nil
}
