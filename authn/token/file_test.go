package token_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/token"
)

func bearer(value string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+value)
	return r
}

func read(t testing.TB, lines ...string) *token.File {
	t.Helper()
	f, err := token.Read(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return f
}

func TestAUTHN_22_Lines(t *testing.T) {
	f := read(t,
		`t1,alice,uid-1,"dev, ops,dev,"`,
		``,
		`t2,bob,`,
		`"t3","carol, the third",3,system:masters`+"\r",
		`t4,alice,uid-1,`)
	for value, want := range map[string]authn.User{
		"t1": {Name: "alice", UID: "uid-1", Groups: []string{"dev", "ops"}, Method: "token"},
		"t2": {Name: "bob", Method: "token"},
		"t3": {Name: "carol, the third", UID: "3", Groups: []string{"system:masters"}, Method: "token"},
		"t4": {Name: "alice", UID: "uid-1", Method: "token"},
	} {
		u, ok, err := f.Authenticate(bearer(value))
		require.NoError(t, err)
		require.True(t, ok, value)
		require.Equal(t, want, u)
	}
	require.Equal(t, "4 static tokens", f.String())
}

func TestUnknownTokensAreLeftToOthers(t *testing.T) {
	f := read(t, "t1,alice,1")
	for _, value := range []string{"t", "t11", "T1", "alice", "t1,alice,1"} {
		_, ok, err := f.Authenticate(bearer(value))
		require.NoError(t, err)
		require.False(t, ok, value)
	}
	_, ok, err := f.Authenticate(httptest.NewRequest("GET", "/", nil))
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = f.Authenticate(bearer("t1 t1"))
	require.Error(t, err)
	require.False(t, ok)
	_, ok, _ = new(token.File).Authenticate(bearer("t1"))
	require.False(t, ok, "the zero value has no tokens")
}

func TestErrorsNameTheLineAndNoToken(t *testing.T) {
	const s = "s3cret"
	for name, c := range map[string]struct{ text, want string }{
		"two fields":          {"ok,u,1\n" + s + ",alice\n", "line 2: 2 fields"},
		"five fields":         {s + ",alice,1,g,g2\n", "line 1: 5 fields"},
		"duplicate":           {s + ",alice,1\n\nx,y,2\n" + s + ",bob,2\n", "line 4: same token as in line 1"},
		"empty token":         {"a,b,c\n,alice,1\n", "line 2: token is empty"},
		"blank in token":      {s + " x,alice,1\n", "line 1: token contains blanks"},
		"byte-order mark":     {"\ufeff" + s + ",alice,1\n", "line 1: token contains blanks or characters outside printable ASCII"},
		"long token":          {strings.Repeat(s, 20_000) + ",alice,1\n", "line 1: token is longer"},
		"empty user":          {s + ",,1\n", "line 1: user name is empty"},
		"newline in user":     {"a,b,c\n" + s + ",\"al\nice\",1\n", "line 2: user name has a control"},
		"NUL in group":        {s + ",alice,1,\"g\x00\"\n", "line 1: group has a control"},
		"bad UTF-8":           {s + ",alice,\xff\n", "line 1: uid is not UTF-8"},
		"anonymous user":      {s + ",system:anonymous,1\n", "line 1: stands for"},
		"unauthenticated":     {s + ",alice,1,system:unauthenticated\n", "line 1: stands for"},
		"bare quote":          {"a,b,c\n" + s + "\",alice,1\n", "line 2"},
		"unterminated":        {"a,b,c\n" + s + ",alice,1,\"g1,g2\n", "line 2"},
		"nothing":             {"\n\n", "no token"},
		"empty":               {"", "no token"},
		"longer than allowed": {s + ",alice,1\n" + strings.Repeat("\n", token.MaxFileBytes), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := token.Read(strings.NewReader(c.text))
			require.Nil(t, f)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), s)
		})
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	_, err := token.Open(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("t1,alice,1\nbad\n"), 0o600))
	_, err = token.Open(path)
	require.ErrorContains(t, err, path+": line 2")
	require.NoError(t, os.WriteFile(path, []byte("t1,alice,1\n"), 0o600))
	f, err := token.Open(path)
	require.NoError(t, err)
	_, ok, _ := f.Authenticate(bearer("t1"))
	require.True(t, ok)
}

// A4 and A5: the process keeps only salted digests, which differ for every load. Neither a look-up
// nor a dump reveals anything about the tokens.
func TestA4_A5_DigestsAreSaltedAndTokensAreNotKept(t *testing.T) {
	const secret = "s3cret-token"
	one, two := fmt.Sprintf("%#v", *read(t, secret+",alice,1")), fmt.Sprintf("%#v", *read(t, secret+",alice,1"))
	require.NotContains(t, one, secret)
	require.NotEqual(t, one, two)
	require.NotContains(t, fmt.Sprintf("%v %+v %s", read(t, secret+",alice,1"), read(t, secret+",alice,1"), read(t, secret+",alice,1")), secret)
}

// Whatever a wrong token has in common with a right one, the same work is done: the whole token is
// hashed, the digest is looked up, and digests are compared in constant time. Nothing else in the
// package looks at tokens.
func TestA4_SecretsAreNotComparedByteByByte(t *testing.T) {
	syntax, err := parser.ParseFile(gotoken.NewFileSet(), "file.go", nil, 0)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, d := range syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Authenticate" && f.Name.Name != "digest" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == gotoken.EQL || n.Op == gotoken.NEQ {
					text := fmt.Sprint(n.X, n.Y)
					require.NotContains(t, text, "token")
					require.NotContains(t, text, "digest")
				}
			case *ast.SelectorExpr:
				seen[fmt.Sprint(n.X)+"."+n.Sel.Name] = true
			}
			return true
		})
	}
	require.True(t, seen["subtle.ConstantTimeCompare"])
	require.True(t, seen["sha256.Sum256"])
	for _, other := range []string{"bytes.Equal", "strings.EqualFold", "strings.HasPrefix", "strings.Compare"} {
		require.False(t, seen[other], other)
	}
	f := read(t, "s3cret-token,alice,1")
	work := func(value string) float64 {
		r := bearer(value)
		return testing.AllocsPerRun(100, func() { _, _, _ = f.Authenticate(r) })
	}
	for _, wrong := range []string{"s3cret-tokex", "x3cret-token", "xxxxxxxxxxxx"} {
		require.InDelta(t, work("s3cret-token"), work(wrong), 0)
	}
}

func TestManyAtOnce(t *testing.T) {
	f := read(t, "t1,alice,1")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				u, ok, err := f.Authenticate(bearer("t1"))
				if !ok || err != nil || u.Name != "alice" {
					t.Errorf("%v %v %v", u, ok, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{`t,u,1,"a,b"`, "t,u,1\nt,u,1", "\"", "t,u\n", "\xff,,,", "a,b,c\r\n\r\nd,e,f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := token.Read(strings.NewReader(text))
		require.Equal(t, err != nil, file == nil)
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	f := read(b, "t1,alice,1")
	r := bearer("t1")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := f.Authenticate(r); !ok {
			b.Fatal("not accepted")
		}
	}
}

// What a program forgot to give is an error.
func TestWhatIsNilIsTold(t *testing.T) {
	_, err := token.Read(nil)
	require.EqualError(t, err, "tokens: the reader is nil")
	_, err = token.Read(strings.NewReader("a,b,c"), nil)
	require.EqualError(t, err, "tokens: option 0 is nil")
	_, err = token.Open("tokens.csv", token.WithReloadError(nil), nil)
	require.EqualError(t, err, "tokens: option 1 is nil")
}

// Service accounts belong to those who issue their tokens, unless the file's owner says otherwise.
func TestS21_TokensOfServiceAccounts(t *testing.T) {
	const line = "t1,system:serviceaccount:team:robot,1"
	_, err := token.Read(strings.NewReader(line))
	require.ErrorContains(t, err, "line 1")
	f, err := token.Read(strings.NewReader(line), token.WithServiceAccounts())
	require.NoError(t, err)
	u, ok, err := f.Authenticate(bearer("t1"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "system:serviceaccount:team:robot", u.Name)
}

// A token that is taken out of the file is unknown, and a new one known, without a restart. A damaged
// file changes nothing, and its error has no part of a token.
func TestAUTHN_22_TheFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.csv")
		write := func(text string) {
			require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		write("first-token-of-ann,ann,1\n")
		var failures []error
		f, err := token.Open(path, token.WithReloadError(func(err error) { failures = append(failures, err) }))
		require.NoError(t, err)
		known := func(token string) bool {
			_, ok, err := f.Authenticate(bearer(token))
			require.NoError(t, err)
			return ok
		}
		require.True(t, known("first-token-of-ann"))

		write("second-token-of-ann,ann,1\n")
		require.False(t, known("first-token-of-ann"))
		require.True(t, known("second-token-of-ann"))

		write("second-token-of-ann,ann\n")
		require.True(t, known("second-token-of-ann"), "the last good state")
		require.Len(t, failures, 1)
		require.ErrorContains(t, failures[0], "line 1")
		require.NotContains(t, failures[0].Error(), "second-token")

		require.NoError(t, os.Remove(path))
		time.Sleep(2 * time.Second)
		require.True(t, known("second-token-of-ann"))
		require.Len(t, failures, 2)
	})
}
