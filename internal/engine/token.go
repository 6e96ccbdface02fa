package engine

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// position is where a chunked list continues: after this key, in the state of this revision.
type position struct {
	revision storage.Revision
	after    string // storage key of the last object of the chunk before
	newest   bool   // the state is whatever is newest: a list whose own state is gone goes on inconsistently
	left     int64  // how many objects follow in the state of revision, for chunks that cannot count them; 0 when unknown
}

// chunkScope is the scope that a token is bound to. The token is invalid in any other (PAGE-09).
type chunkScope struct {
	resource, namespace, labels, fields, shards string

	storageName string // of the resource's keys, which tokens leave out
}

// continueToken is the wire form of a position, base64url of its JSON followed by a MAC over it and
// the scope (PAGE-08, design rule 15).
type continueToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`    // -1: the newest
	Start    string `json:"start"` // namespace, "/", name and a NUL
	Left     int64  `json:"n,omitzero"`
	Key      string `json:"k"` // id of the key the MAC is made with
	MAC      string `json:"m,omitempty"`
}

// tokenSigner makes and opens continue tokens. Its key is in the store, so tokens survive a restart
// and every process on the same store understands them.
type tokenSigner struct {
	store   *storage.Store
	rand    io.Reader
	domain  string
	log     logr.Logger
	history time.Duration // how long it is kept

	id  string
	key []byte

	mu     sync.Mutex       // guards what follows
	oldest storage.Revision // whose history the store had
	until  time.Time        // that counts
}

const (
	tokenKeyBytes  = 32
	maxTokenLength = 4096
)

var tokenKeyPath = [...]string{"token-key", "current"}

// load reads the key, or creates one in a store that has none. One that is damaged is replaced: the
// tokens that it signed expire, and nothing else depends on it. Two processes that start at once
// both use the first key stored.
func (s *tokenSigner) load(ctx context.Context) error {
	at := storage.SysKey(tokenKeyPath[:]...)
	for {
		page, err := s.store.List(ctx, storage.ListRequest{
			Prefix: storage.SysKey(tokenKeyPath[0]), Limit: 8,
		})
		if err != nil {
			return err
		}
		var rec storage.Record
		for _, r := range page.Records {
			if r.Key == at {
				rec = r
			}
		}
		if errors.Is(rec.Err, storage.ErrUnavailable) {
			return rec.Err // it will be readable
		}
		if rec.Err == nil && len(rec.Value) == tokenKeyBytes {
			sum := sha256.Sum256(rec.Value)
			s.key, s.id = rec.Value, hex.EncodeToString(sum[:4])
			return nil
		}
		if rec.Revision > 0 {
			s.log.Info("the stored key of continue tokens is damaged and is replaced: "+
				"lists that are under way start again", "key", at)
		}
		fresh := make([]byte, tokenKeyBytes)
		if _, err := io.ReadFull(s.rand, fresh); err != nil {
			return err
		}
		var lost *storage.ConflictError
		_, err = s.store.Commit(ctx, []storage.Op{storage.Put(at, fresh, storage.Expect(rec.Revision))})
		if err != nil && !errors.As(err, &lost) {
			return err
		}
	}
}

func (s *tokenSigner) mac(scope chunkScope, t continueToken) string {
	h := hmac.New(sha256.New, s.key)
	for _, part := range []string{t.Version, scope.resource, scope.namespace, scope.labels, scope.fields, scope.shards, t.Start, fmt.Sprint(t.Revision), fmt.Sprint(t.Left)} {
		_, _ = fmt.Fprintf(h, "%d:%s;", len(part), part) // the lengths separate neighbouring parts
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

func (s *tokenSigner) version() string { return "meta." + s.domain + "/v1" }

func (s *tokenSigner) seal(scope chunkScope, p position) (string, error) {
	_, namespace, name, _ := storage.SplitObjectKey(p.after)
	t := continueToken{Version: s.version(), Revision: int64(p.revision), Start: namespace + "/" + name + "\x00", Left: p.left, Key: s.id}
	if p.newest {
		t.Revision, t.Left = -1, 0
	}
	t.MAC = s.mac(scope, t)
	out, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(out), nil
}

// retained returns storage.ErrCompacted for a version whose history is gone. The kind may be as it was then,
// but a token has its time (PAGE-07). Another process may be the one that compacts, so the store is asked.
// Its answer holds for newer versions too, for a tenth of that time. A store that does not answer says
// nothing about the version.
func (s *tokenSigner) retained(ctx context.Context, rev storage.Revision) error {
	s.mu.Lock()
	known := rev >= s.oldest && time.Now().Before(s.until)
	s.mu.Unlock()
	if known {
		return nil
	}
	_, err := s.store.List(ctx, storage.ListRequest{Prefix: storage.SysKey(tokenKeyPath[0]), At: rev, Limit: 1})
	switch {
	case errors.Is(err, storage.ErrCompacted):
		return err
	case err == nil:
		s.mu.Lock()
		s.oldest, s.until = rev, time.Now().Add(s.history/10)
		s.mu.Unlock()
	}
	return nil
}

func badToken(why string) error {
	return status.BadRequest("invalid continue token: continue key is not valid: %s", why)
}

func (s *tokenSigner) open(_ context.Context, scope chunkScope, token string) (position, error) {
	if len(token) > maxTokenLength {
		return position{}, badToken("it is too long")
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return position{}, badToken("it is not base64url")
	}
	var t continueToken
	if err := json.Unmarshal(raw, &t); err != nil {
		return position{}, badToken("it cannot be read")
	}
	start, terminated := strings.CutSuffix(t.Start, "\x00")
	namespace, name, _ := strings.Cut(start, "/")
	switch {
	case t.Version != s.version():
		return position{}, badToken("it is of another version")
	case t.Revision == 0 || t.Revision < -1 || !terminated || name == "" || t.Key == "" || t.MAC == "":
		return position{}, badToken("it is incomplete") // one without a key is not an old one of ours
	case t.Key != s.id:
		return position{}, status.Expired("the continue token was made with a key that is no longer known; start the list again")
	}
	if !hmac.Equal([]byte(t.MAC), []byte(s.mac(scope, t))) {
		return position{}, badToken("it was not made for this list")
	}
	p := position{after: storage.ObjectKey(scope.storageName, namespace, name), newest: t.Revision == -1}
	if !p.newest {
		p.revision, p.left = storage.Revision(t.Revision), t.Left
	}
	return p, nil
}

// expired returns the 410 for a token whose state is gone. The error carries a token that continues
// at the newest state, for clients that prefer an inconsistent list to starting again (PAGE-08).
func (s *tokenSigner) expired(scope chunkScope, p position) error {
	fresh, err := s.seal(scope, position{after: p.after, newest: true})
	if err != nil {
		return status.Internal(err)
	}
	return status.Expired("the state that this chunked list began with is no longer retained. Start the list again without " +
		"continue, or go on with the token in metadata.continue of this answer, whose objects are of a later state").
		WithContinue(fresh)
}
