package token

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/files"
)

// MaxFileBytes is the size of the largest accepted file.
const MaxFileBytes = 16 << 20

// File authenticates by the tokens of one file. It is safe for concurrent use.
type File struct {
	tokens atomic.Pointer[tokens]
	follow *files.Follower // nil if it was made by Read
}

// tokens are those of one state of a file.
type tokens struct {
	salt  [32]byte
	users map[digest]entry
}

type digest [sha256.Size]byte

type entry struct {
	digest digest
	user   authn.User
}

var _ authn.Authenticator = (*File)(nil)

// Option configures a [File].
type Option func(*reading)

// reading is how a file is read.
type reading struct {
	accounts bool
	failed   func(error)
}

// WithServiceAccounts accepts tokens of service accounts. By default a file with such a token is an
// error, because service accounts belong to those who issue their tokens.
func WithServiceAccounts() Option { return func(r *reading) { r.accounts = true } }

// WithReloadError sets what is called with the error of a changed file that cannot be read, after
// [Open]. The error contains no part of a token. By default nobody is told.
func WithReloadError(failed func(error)) Option { return func(r *reading) { r.failed = failed } }

// Open reads the file at path; see [Read]. It must be a regular file of at most 16 MiB that belongs
// to the user of the process or to root. Open takes the permissions of users outside of its group
// away.
//
// It reads the file again when it changes. [File.Authenticate] looks at it once a second, so a token
// that is taken out is unknown to requests that begin more than a second later. A file that is written
// in place is read once it has rested for a tenth of a second, because it may be half of what it is
// going to be; one that replaces the file at path is read as it is. Requests that come while another
// one reads do not wait for it. While the file is damaged or gone, its last good state counts.
func Open(path string, opts ...Option) (*File, error) {
	how, err := readingOf(opts)
	if err != nil {
		return nil, err
	}
	f := &File{}
	f.follow, err = files.Follow(func() error {
		data, err := files.ReadSecret(path)
		if err != nil {
			return fmt.Errorf("token file: %w", err)
		}
		read, err := how.read(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("token file %s: %w", path, err)
		}
		f.tokens.Store(read)
		return nil
	}, how.failed, path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Healthy returns why the file of [Open] cannot be used as it is now, or nil. Its last good state
// counts then.
func (f *File) Healthy() error {
	if f.follow == nil {
		return nil
	}
	return f.follow.Healthy()
}

// Read parses lines of token, user, uid and, optionally, groups. Several groups form one quoted
// field, separated by commas. Empty lines are ignored.
//
// Every error names its line and contains no part of a token. Errors are a wrong number of fields,
// a token that no request could carry (see [authn.CheckToken]), a duplicate token, an empty user
// name, and a name that [authn.CheckIssued] rejects. A file without tokens is an error, too.
func Read(r io.Reader, opts ...Option) (*File, error) {
	if r == nil {
		return nil, errors.New("tokens: the reader is nil")
	}
	how, err := readingOf(opts)
	if err != nil {
		return nil, err
	}
	read, err := how.read(r)
	if err != nil {
		return nil, err
	}
	f := &File{}
	f.tokens.Store(read)
	return f, nil
}

// readingOf returns how a file is read with options.
func readingOf(opts []Option) (reading, error) {
	var how reading
	for i, o := range opts {
		if o == nil {
			return how, fmt.Errorf("tokens: option %d is nil", i)
		}
		o(&how)
	}
	if how.failed == nil {
		how.failed = func(error) {}
	}
	return how, nil
}

func (how *reading) read(r io.Reader) (*tokens, error) {
	f := &tokens{users: make(map[digest]entry)}
	if _, err := rand.Read(f.salt[:]); err != nil {
		return nil, fmt.Errorf("random salt: %w", err)
	}
	limited := &io.LimitedReader{R: r, N: MaxFileBytes + 1}
	in := csv.NewReader(limited)
	in.FieldsPerRecord = -1 // checked below, with a message of our own
	lines := make(map[digest]int)
	for {
		fields, err := in.Read()
		switch {
		case limited.N <= 0:
			return nil, fmt.Errorf("longer than %d bytes", MaxFileBytes)
		case errors.Is(err, io.EOF) && len(f.users) == 0:
			return nil, errors.New("the file has no tokens, write lines of the form token,user,uid,\"group1,group2\"")
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return nil, err // a *csv.ParseError names lines and columns and repeats no text
		}
		line, _ := in.FieldPos(0)
		user, err := how.parse(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		d := f.digest(fields[0])
		if first, dup := lines[d]; dup {
			return nil, fmt.Errorf("line %d: same token as in line %d", line, first)
		}
		lines[d] = line
		f.users[d] = entry{digest: d, user: user}
	}
}

// parse checks the fields of one line.
func (how *reading) parse(fields []string) (authn.User, error) {
	if len(fields) < 3 || len(fields) > 4 {
		return authn.User{}, fmt.Errorf("%d fields instead of token, user, uid and optional groups", len(fields))
	}
	if why := authn.CheckToken(fields[0]); why != "" {
		return authn.User{}, fmt.Errorf("token %s", why)
	}
	user := authn.User{Name: fields[1], UID: fields[2], Method: "token"}
	if user.Name == "" {
		return authn.User{}, errors.New("user name is empty")
	}
	if len(fields) == 4 {
		for group := range strings.SplitSeq(fields[3], ",") {
			if group = strings.TrimSpace(group); group != "" && !slices.Contains(user.Groups, group) {
				user.Groups = append(user.Groups, group)
			}
		}
	}
	if err := authn.CheckIssued(user, how.accounts); err != nil {
		return authn.User{}, err
	}
	return user, nil
}

// Authenticate returns the user of the request's bearer token. It leaves a token that is not in the
// file to other authenticators; a malformed one is an error (see [authn.BearerToken]).
func (f *File) Authenticate(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return authn.User{}, false, err
	}
	if f.follow != nil {
		f.follow.Look()
	}
	now := f.tokens.Load()
	if now == nil {
		return authn.User{}, false, nil // the zero value has no tokens
	}
	d := now.digest(token)
	// The look-up uses a salted digest, so its duration reveals nothing about the tokens. The
	// comparison reveals nothing about the digests either (security vector A4).
	e := now.users[d]
	if subtle.ConstantTimeCompare(e.digest[:], d[:]) != 1 {
		return authn.User{}, false, nil
	}
	return e.user, true, nil
}

// digest hashes a token with the salt. It allocates nothing: the digest of a piece goes into that of the
// next one, and usual tokens have one piece.
func (f *tokens) digest(token string) (d digest) {
	var room [1 << 10]byte
	for d = f.salt; len(token) > 0; {
		from := append(room[:0], d[:]...)
		n := min(len(token), len(room)-len(from))
		d = sha256.Sum256(append(from, token[:n]...))
		token = token[n:]
	}
	return d
}

// String returns the number of tokens and nothing about them.
func (f *File) String() string { return fmt.Sprintf("%d static tokens", len(f.tokens.Load().users)) }
