package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kindwright/kindwright/internal/json"
)

// Paths that an issuer serves.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/keys"
)

// Audience is whom tokens are for, unless their claims say something else.
const Audience = "kindwright"

// Issuer is an OpenID Connect provider.
type Issuer struct {
	URL         string
	Authorities string // in PEM

	mu       sync.Mutex
	keys     []Key
	requests []string
	instead  http.Handler
}

// Key is a key of an issuer: RSA or elliptic.
type Key struct {
	ID     string
	Signer crypto.Signer
}

// New starts an issuer with one RSA key, which stops at the end of the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	server := httptest.NewTLSServer(http.HandlerFunc(i.serve))
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.Authorities = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	i.Publish(RSA(t, "first"))
	return i
}

// RSA makes a key.
func RSA(t testing.TB, id string) Key {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// ECDSA makes a key on the curve P-256.
func ECDSA(t testing.TB, id string) Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// Publish replaces the published keys. The first one signs tokens.
func (i *Issuer) Publish(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Instead has another handler answer all requests, and with nil the issuer again.
func (i *Issuer) Instead(h http.Handler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.instead = h
}

// Requests returns the paths that were asked for.
func (i *Issuer) Requests() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.requests)
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.requests = append(i.requests, r.URL.Path)
	instead := i.instead
	i.mu.Unlock()
	if instead != nil {
		instead.ServeHTTP(w, r)
		return
	}
	i.ServeHTTP(w, r)
}

// ServeHTTP answers as the issuer does.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case DiscoveryPath:
		_, _ = w.Write(marshal(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + KeysPath})) // nobody to tell
	case KeysPath:
		_, _ = w.Write(i.Set()) // nobody to tell
	default:
		http.NotFound(w, r)
	}
}

// Set returns the published JSON Web Key Set.
func (i *Issuer) Set() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := []map[string]string{}
	for _, k := range i.keys {
		all = append(all, k.public())
	}
	return marshal(map[string]any{"keys": all})
}

func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func (k Key) public() map[string]string {
	switch p := k.Signer.Public().(type) {
	case *rsa.PublicKey:
		return map[string]string{
			"kty": "RSA", "kid": k.ID, "use": "sig", "alg": k.Algorithm(),
			"n": text(p.N.Bytes()), "e": text(big.NewInt(int64(p.E)).Bytes()),
		}
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			panic(err)
		}
		return map[string]string{"kty": "EC", "kid": k.ID, "crv": "P-256", "x": text(point[1:33]), "y": text(point[33:])}
	}
	panic(fmt.Sprintf("a key of the type %T", k.Signer))
}

// Algorithm is how the key signs.
func (k Key) Algorithm() string {
	if _, ok := k.Signer.(*ecdsa.PrivateKey); ok {
		return "ES256"
	}
	return "RS256"
}

// Token returns a token of the issuer with these claims. It is valid for an hour and has the subject
// alice, if the claims do not say something else. A claim that is nil is left out.
func (i *Issuer) Token(claims map[string]any) string {
	i.mu.Lock()
	key := i.keys[0]
	i.mu.Unlock()
	return key.Token(i.Claims(claims))
}

// Claims returns the claims of a token.
func (i *Issuer) Claims(claims map[string]any) map[string]any {
	all := map[string]any{
		"iss": i.URL, "aud": Audience, "sub": "alice",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// Token signs claims.
func (k Key) Token(claims map[string]any) string {
	return k.Sign(map[string]any{"alg": k.Algorithm(), "kid": k.ID, "typ": "JWT"}, claims)
}

// Sign signs a payload under a header, whatever that says. Both are encoded as JSON, unless they are
// bytes.
func (k Key) Sign(header, payload any) string {
	signed := encode(header) + "." + encode(payload)
	hash := crypto.SHA256.New()
	hash.Write([]byte(signed))
	signature, err := k.sign(hash.Sum(nil))
	if err != nil {
		panic(err)
	}
	return signed + "." + text(signature)
}

func (k Key) sign(sum []byte) ([]byte, error) {
	e, ok := k.Signer.(*ecdsa.PrivateKey)
	if !ok {
		return k.Signer.Sign(rand.Reader, sum, crypto.SHA256)
	}
	r, s, err := ecdsa.Sign(rand.Reader, e, sum)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out, nil
}

func encode(v any) string {
	if raw, ok := v.([]byte); ok {
		return text(raw)
	}
	return text(marshal(v))
}

func text(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
