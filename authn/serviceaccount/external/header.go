package external

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/internal/json"
)

// header is what a signer says about a signature. It says nothing else.
type header struct {
	Algorithm string // alg
	KeyID     string // kid
	Type      string // typ
}

// readHeader reads the header of a token, and reports what keeps the token from being handed out.
// The sentences are those of Kubernetes, since administrators look for them.
func readHeader(text string) (h header, err error) {
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return h, fmt.Errorf("while unwrapping header: %w", err)
	}
	if err := h.parse(plain); err != nil {
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

// parse accepts the three members alone. Others could say that the token is not what it seems.
func (h *header) parse(text []byte) error {
	var members map[string]string
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		switch name {
		case "alg":
			h.Algorithm = value
		case "kid":
			h.KeyID = value
		case "typ":
			h.Type = value
		default:
			return fmt.Errorf("unknown field %q", name)
		}
	}
	return nil
}

// checkKey reports a key that only old tokens may be signed with: others could not find it.
func checkKey(id string, known []serviceaccount.PublicKey) error {
	if slices.ContainsFunc(known, func(k serviceaccount.PublicKey) bool { return k.ID == id && k.Unpublished }) {
		return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", id)
	}
	return nil
}
