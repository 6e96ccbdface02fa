package jwt_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/internal/issuer"
)

func TestAUTHNCFG_02_03_ATokenBelongsToOneIssuer(t *testing.T) {
	first, second, third := issuer.New(t), issuer.New(t), issuer.New(t)
	name := func(prefix string) func(*jwt.Provider) {
		return func(p *jwt.Provider) { p.ClaimMappings.Username.Prefix = &prefix }
	}
	a := open(t, jwt.Options{}, provider(first, name("1:")), provider(second, name("2:")))
	require.Equal(t, "1:alice", accepted(t, a, first.Token(nil)).Name)
	require.Equal(t, "2:alice", accepted(t, a, second.Token(nil)).Name)
	left(t, a, third.Token(nil))
}

func TestAUTHNCFG_06_ATokenNeedsItsMinimum(t *testing.T) {
	i := issuer.New(t)
	a := open(t, jwt.Options{}, provider(i))
	accepted(t, a, i.Token(map[string]any{"iat": nil}))
	left(t, a, i.Token(map[string]any{"iss": nil}))
	rejected(t, a, i.Token(map[string]any{"aud": nil}), "another audience")
	rejected(t, a, i.Token(map[string]any{"exp": nil}), "exp is missing")
	rejected(t, a, i.Token(map[string]any{"sub": nil}), `username claim "sub"`)
}

func TestJ4_TimesAreNumbersOfSeconds(t *testing.T) {
	i := issuer.New(t)
	a := open(t, jwt.Options{}, provider(i))
	now := time.Now().Unix()
	for _, good := range []map[string]any{
		{"exp": float64(now) + 60.5}, {"nbf": now - 5}, {"nbf": now + 30}, {"iat": now + 30}, {"exp": int64(253402300799)},
	} {
		accepted(t, a, i.Token(good))
	}
	for _, bad := range []map[string]any{
		{"exp": now - 1},
		{"exp": fmt.Sprint(now + 60)},
		{"exp": -1},
		{"exp": 0},
		{"exp": true},
		{"exp": []int64{now + 60}},
		{"exp": (now + 60) * 1000},
		{"nbf": now + 120},
		{"iat": now + 120},
		{"nbf": "x"},
		{"iat": false},
	} {
		_, ok, err := a.Authenticate(request(t, i.Token(bad)))
		require.False(t, ok)
		require.Error(t, err, "%v", bad)
	}
	key := issuer.RSA(t, "raw")
	i.Publish(key)
	a = open(t, jwt.Options{}, provider(i))
	for _, exp := range []string{"1e400", "NaN", "Infinity", "9223372036854775808000", "null"} {
		_, ok, err := a.Authenticate(request(t, key.Sign(map[string]any{"alg": "RS256"}, []byte(`{"iss":"`+i.URL+`","aud":"kindwright","sub":"a","exp":`+exp+`}`))))
		require.False(t, ok && err == nil, exp)
	}
	for _, claim := range []string{"nbf", "iat"} {
		accepted(t, a, key.Sign(map[string]any{"alg": "RS256"}, fmt.Appendf(nil, `{"iss":%q,"aud":"kindwright","sub":"a","exp":%d,%q:null}`, i.URL, now+60, claim)))
	}
}

func TestJ5_AUTHNCFG_24_25_AudiencesMatchExactly(t *testing.T) {
	i := issuer.New(t)
	a := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.Issuer.Audiences, p.Issuer.AudienceMatchPolicy = []string{"books", "films"}, "MatchAny"
	}))
	many := make([]string, 1000)
	for n := range many {
		many[n] = fmt.Sprint("aud-", n)
	}
	many[777] = "films"
	for _, aud := range []any{"books", "films", []string{"x", "books"}, many} {
		accepted(t, a, i.Token(map[string]any{"aud": aud}))
	}
	for _, aud := range []any{"book", "bookshop", "Books", "", []string{}, []string{"x"}, nil, 1, map[string]string{"books": "books"}, []any{"books", 1}, slices.Concat(many, []string{"y"})} {
		_, ok, err := a.Authenticate(request(t, i.Token(map[string]any{"aud": aud, "azp": "books"})))
		require.False(t, ok)
		require.Error(t, err, "%v", aud)
	}
	// A review asks about other audiences. The token must be meant for one of these too.
	ask := func(audiences ...string) authn.TokenReviewStatus {
		return authn.ReviewToken(t.Context(), a, authn.TokenReviewSpec{Token: i.Token(map[string]any{"aud": []string{"books", "shop"}}), Audiences: audiences})
	}
	require.Equal(t, []string{"shop"}, ask("shop", "x").Audiences)
	require.True(t, ask().Authenticated)
	require.False(t, ask("x").Authenticated)
}

// The name that an issuer has for the server is not the one that others know it by, which --api-audiences says.
func TestREVIEW_06_AUTHNCFG_24_ATokenOfAnIssuerIsMeantForTheServer(t *testing.T) {
	i, own := issuer.New(t), []string{"https://api.example.dev", "api"}
	a := open(t, jwt.Options{Audiences: own}, provider(i))
	ask := func(claims map[string]any, audiences ...string) authn.TokenReviewStatus {
		return authn.ReviewToken(t.Context(), a, authn.TokenReviewSpec{Token: i.Token(claims), Audiences: audiences}, own...)
	}
	for _, c := range []struct{ asked, meant []string }{
		{nil, own},
		{[]string{"api"}, []string{"api"}},
		{[]string{"x", "api", "https://api.example.dev"}, []string{"api", "https://api.example.dev"}},
		{[]string{issuer.Audience, "api"}, []string{issuer.Audience, "api"}},
		{[]string{"x"}, nil},
		{[]string{"API"}, nil},
	} {
		got := ask(nil, c.asked...)
		require.Equal(t, c.meant != nil, got.Authenticated, c.asked)
		require.Equal(t, c.meant, got.Audiences, c.asked)
	}
	require.False(t, ask(map[string]any{"aud": "api"}, "api").Authenticated, "the configuration names other audiences")
	require.Equal(t, []string{issuer.Audience}, accepted(t, a, i.Token(nil)).Audiences)
}

func TestJ6_AUTHNCFG_15_TheIssuerMatchesExactly(t *testing.T) {
	i, other := issuer.New(t), issuer.New(t)
	a := open(t, jwt.Options{}, provider(i), provider(other))
	for _, iss := range []string{i.URL + "/", strings.Replace(i.URL, "https", "http", 1), strings.Replace(i.URL, "https", "HTTPS", 1), i.URL + " ", ""} {
		left(t, a, i.Token(map[string]any{"iss": iss}))
	}
	key := issuer.RSA(t, "first") // the same kid
	other.Publish(key)
	rejected(t, a, key.Token(i.Claims(nil)), "signature")
	_, ok, _ := a.Authenticate(request(t, key.Sign(map[string]any{"alg": "RS256"}, []byte(`{"iss":"`+other.URL+`","iss":"`+i.URL+`"}`))))
	require.False(t, ok, "two issuers")
}

func TestJ1_J2_J3_OnlyPublishedKeysCount(t *testing.T) {
	i := issuer.New(t)
	known, own := issuer.RSA(t, "known"), issuer.RSA(t, "own")
	i.Publish(known)
	a := open(t, jwt.Options{}, provider(i))
	accepted(t, a, i.Token(nil))
	before := len(i.Requests())
	for _, header := range []map[string]any{
		{"alg": "none"},
		{"alg": "HS256"},
		{"alg": "RS256", "jku": i.URL + "/theirs"},
		{"alg": "RS256", "x5u": i.URL + "/theirs"},
		{"alg": "RS256", "kid": "known"},
		{"alg": "RS256", "kid": "../../dev/null"},
	} {
		_, ok, err := a.Authenticate(request(t, own.Sign(header, i.Claims(nil))))
		require.False(t, ok)
		require.Error(t, err)
	}
	for _, path := range i.Requests()[before:] {
		require.Contains(t, []string{issuer.DiscoveryPath, issuer.KeysPath}, path)
	}
}

func TestJ9_ATokenDoesNotNameTheSystem(t *testing.T) {
	i := issuer.New(t)
	expression := func(p *jwt.Provider) {
		p.ClaimMappings.Username = jwt.PrefixedClaimOrExpression{Expression: "claims.sub"}
		p.ClaimMappings.Groups = jwt.PrefixedClaimOrExpression{Expression: "claims.?groups.orValue([])"}
	}
	for _, change := range []func(*jwt.Provider){func(*jwt.Provider) {}, expression} {
		a := open(t, jwt.Options{}, provider(i, change))
		for _, claims := range []map[string]any{
			{"groups": []string{"system:masters"}},
			{"groups": "system:authenticated"},
			{"groups": []string{"dev", "system:unauthenticated"}},
			{"groups": "system:serviceaccounts"},
			{"groups": "System:masters"},
			{"groups": "system:nodes"},
			{"sub": "system:serviceaccount:kube-system:x"},
			{"sub": "system:anonymous"},
			{"sub": "system:admin"},
			{"sub": "ѕystem:admin"},
			{"sub": "a\nb"},
			{"sub": "system:node:a"},
		} {
			_, ok, err := a.Authenticate(request(t, i.Token(claims)))
			require.False(t, ok)
			require.Error(t, err, "%v", claims)
		}
	}
	prefix := "login:"
	a := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.ClaimMappings.Username.Prefix, p.ClaimMappings.Groups.Prefix = &prefix, &prefix
	}))
	u := accepted(t, a, i.Token(map[string]any{"sub": "system:admin", "groups": "system:masters"}))
	require.Equal(t, "login:system:admin", u.Name)
	require.Equal(t, []string{"login:system:masters"}, u.Groups)
	a = open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.ClaimMappings.Groups = jwt.PrefixedClaimOrExpression{Expression: "claims.admin ? ['system:masters'] : []"}
	}))
	require.Equal(t, []string{"system:masters"}, accepted(t, a, i.Token(map[string]any{"admin": true})).Groups, "the configuration says so")
}

func TestJ10_AnAddressIsVerified(t *testing.T) {
	i := issuer.New(t)
	email := provider(i, func(p *jwt.Provider) { p.ClaimMappings.Username.Claim = "email" })
	a, lenient := open(t, jwt.Options{}, email), open(t, jwt.Options{UnverifiedEmail: true}, email)
	token := func(verified any) string {
		return i.Token(map[string]any{"email": "a@example.com", "email_verified": verified})
	}
	require.Equal(t, "a@example.com", accepted(t, a, token(true)).Name)
	for _, verified := range []any{false, "true", 1, nil} {
		rejected(t, a, token(verified), "email not verified")
	}
	require.Equal(t, "a@example.com", accepted(t, lenient, token(nil)).Name)
	rejected(t, lenient, token(false), "email not verified")
	rejected(t, lenient, token("true"), "email not verified")
}

func TestAUTHNCFG_26_28_29_30_31_ClaimRules(t *testing.T) {
	i := issuer.New(t)
	a := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.ClaimValidationRules = []jwt.ClaimValidationRule{
			{Claim: "hd", RequiredValue: "example.com"},
			{Claim: "empty"},
			{Expression: "claims.aud == 'kindwright'", Message: "one audience alone"},
		}
	}))
	good := map[string]any{"hd": "example.com", "empty": ""}
	with := func(name string, value any) string {
		all := map[string]any{"hd": good["hd"], "empty": good["empty"]}
		all[name] = value
		return i.Token(all)
	}
	accepted(t, a, i.Token(good))
	rejected(t, a, with("hd", nil), "required claim hd not present")
	rejected(t, a, with("hd", "other"), "required claim hd value does not match")
	rejected(t, a, with("hd", []string{"example.com"}), "required claim hd value does not match")
	rejected(t, a, with("empty", "x"), "required claim empty value does not match")
	rejected(t, a, with("empty", nil), "required claim empty not present")
	rejected(t, a, with("aud", []string{"kindwright", "x"}), "validation expression 'claims.aud == 'kindwright'' failed: one audience alone")
}

func TestAUTHNCFG_13_UserRules(t *testing.T) {
	i := issuer.New(t)
	a := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		prefix := "system:"
		p.ClaimMappings.Username.Prefix = &prefix
		p.UserValidationRules = []jwt.UserValidationRule{
			{Expression: "!user.username.startsWith('system:x')", Message: "reserved"},
			{Expression: "user.groups.all(g, g != 'bad') && user.uid == '' && !has(user.extra.x)"},
		}
	}))
	accepted(t, a, i.Token(map[string]any{"sub": "a"}))
	rejected(t, a, i.Token(map[string]any{"sub": "xa"}), "failed: reserved")
	rejected(t, a, i.Token(map[string]any{"sub": "a", "groups": []string{"good", "bad"}}), "validation expression")
}

func TestAUTHNCFG_33_36_37_38_40_Mappings(t *testing.T) {
	i, key := issuer.New(t), issuer.RSA(t, "k")
	i.Publish(key)
	a := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		groups := "g:"
		p.ClaimMappings.Groups.Prefix = &groups
		p.ClaimMappings.UID = &jwt.ClaimOrExpression{Claim: "uid"}
		p.ClaimMappings.Extra = []jwt.ExtraMapping{
			{Key: "example.com/team", ValueExpression: "claims.?team.orValue('')"},
			{Key: "example.com/n", ValueExpression: "string(claims.?n.orValue(0))"},
		}
	}))
	token := func(more map[string]any) string {
		all := map[string]any{"uid": "u-1"}
		for k, v := range more {
			all[k] = v
		}
		return i.Token(all)
	}
	for _, c := range []struct {
		groups any
		want   []string
	}{
		{"dev", []string{"g:dev"}},
		{[]string{"a", "b"}, []string{"g:a", "g:b"}},
		{"", nil},
		{[]string{}, nil},
	} {
		require.Equal(t, c.want, accepted(t, a, token(map[string]any{"groups": c.groups})).Groups)
	}
	null := i.Claims(map[string]any{"uid": "u-1", "groups": nil})
	null["groups"] = nil // null, and not left out
	b := open(t, jwt.Options{}, provider(i))
	require.Nil(t, accepted(t, b, key.Token(null)).Groups)
	rejected(t, a, token(map[string]any{"groups": 1}), `groups claim "groups"`)
	rejected(t, a, token(map[string]any{"groups": []any{"a", 1}}), "must be a string or a list of strings")
	rejected(t, a, token(map[string]any{"sub": []string{"a"}}), "username claim")
	rejected(t, a, token(map[string]any{"sub": ""}), "username claim")
	rejected(t, a, token(map[string]any{"uid": []string{"a"}}), "uid claim")
	rejected(t, a, i.Token(nil), "uid claim")
	rejected(t, a, token(map[string]any{"uid": 7}), "uid claim")
	null["uid"] = nil
	require.Empty(t, accepted(t, a, key.Token(null)).UID, "null is no uid, as in Kubernetes")
	null["sub"] = nil
	rejected(t, a, key.Token(null), "username claim") // Kubernetes names the user by the prefix alone
	require.Equal(t, []string{"g:a"}, accepted(t, a, token(map[string]any{"groups": []any{"a", nil}})).Groups)

	require.Equal(t, "u-1", accepted(t, a, token(nil)).UID)
	for team, want := range map[string][]string{`""`: nil, `[]`: nil, `["","a"]`: {"a"}, `"x"`: {"x"}, `null`: nil} {
		text := fmt.Sprintf(`{"iss":%q,"aud":"kindwright","sub":"a","uid":"u","exp":%d,"team":%s}`, i.URL, time.Now().Add(time.Hour).Unix(), team)
		u := accepted(t, a, key.Sign(map[string]any{"alg": "RS256"}, []byte(text)))
		require.Equal(t, want, u.Extra["example.com/team"], team)
		require.Equal(t, []string{"0"}, u.Extra["example.com/n"])
	}
	rejected(t, a, token(map[string]any{"team": 1}), "claimMappings.extra: example.com/team")
	u := accepted(t, a, token(map[string]any{"jti": 7}))
	require.NotContains(t, u.Extra, "authentication.kubernetes.io/credential-id", "an identifier that is no text is not an error")

	a = open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.ClaimMappings.Username = jwt.PrefixedClaimOrExpression{Expression: "claims.name + '@' + claims.realm"}
		p.ClaimMappings.Groups = jwt.PrefixedClaimOrExpression{Expression: "claims.roles.map(r, r.name)"}
		p.ClaimMappings.UID = &jwt.ClaimOrExpression{Expression: "claims.?oid.orValue('-')"}
	}))
	u = accepted(t, a, i.Token(map[string]any{"name": "a", "realm": "r", "roles": []any{map[string]any{"name": "x"}, map[string]any{"name": "y"}}}))
	require.Equal(t, "a@r", u.Name)
	require.Equal(t, []string{"x", "y"}, u.Groups)
	require.Equal(t, "-", u.UID)
	rejected(t, a, i.Token(map[string]any{"name": "a", "realm": "r"}), "no such key: roles")
	rejected(t, a, i.Token(map[string]any{"name": "a", "realm": 1, "roles": []string{}}), "claimMappings.username.expression")
}

// Expressions see the numbers that Kubernetes' expressions see, or the same configuration would give other
// names. Whole numbers that doubles do not tell apart are the exception.
func TestAUTHNCFG_33_NumbersOfClaimsAreDoubles(t *testing.T) {
	i, key := issuer.New(t), issuer.RSA(t, "k")
	i.Publish(key)
	a := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.ClaimMappings.Username = jwt.PrefixedClaimOrExpression{Expression: "string(claims.n)"}
	}))
	named := func(n string) string {
		text := fmt.Sprintf(`{"iss":%q,"aud":"kindwright","exp":%d,"other":12345678901234567890123,"n":%s}`, i.URL, time.Now().Add(time.Hour).Unix(), n)
		return accepted(t, a, key.Sign(map[string]any{"alg": "RS256"}, []byte(text))).Name
	}
	for n, want := range map[string]string{
		"5": "5", "5.0": "5", "-3": "-3", "1234567": "1.234567e+06", "9007199254740992": "9.007199254740992e+15",
		"9007199254740993": "9007199254740993", "9007199254740994": "9007199254740994", "-9007199254740993": "-9007199254740993",
		"12345678901234567890": "12345678901234567890", "12345678901234567891": "12345678901234567891",
	} {
		require.Equal(t, want, named(n), n)
	}

	sums := open(t, jwt.Options{}, provider(i, func(p *jwt.Provider) {
		p.ClaimValidationRules = []jwt.ClaimValidationRule{{Expression: "claims.n + 1.0 == 6.0"}}
	}))
	accepted(t, sums, i.Token(map[string]any{"n": 5}))
	rejected(t, sums, i.Token(map[string]any{"n": 6}), "failed")
}

func TestAUTHNCFG_48_Algorithms(t *testing.T) {
	i := issuer.New(t)
	i.Publish(issuer.ECDSA(t, "e"), issuer.RSA(t, "r"))
	accepted(t, open(t, jwt.Options{}, provider(i)), i.Token(nil))
	rejected(t, open(t, jwt.Options{Algorithms: []string{"RS256"}}, provider(i)), i.Token(nil), "algorithm")
}

// Tokens that cost nothing to send cost nothing to reject.
func TestJ7_J8_TokenBombs(t *testing.T) {
	i, key := issuer.New(t), issuer.RSA(t, "first")
	i.Publish(key)
	a := open(t, jwt.Options{}, provider(i))
	b64 := base64.RawURLEncoding.EncodeToString
	iss := `{"iss":"` + i.URL + `","aud":"kindwright","sub":"a","exp":9999999999,"x":`
	fill := authn.MaxTokenBytes * 3 / 4 * 9 / 10
	members := &strings.Builder{}
	for n := 0; members.Len() < fill/2; n++ {
		fmt.Fprintf(members, `"m%d":{},`, n)
	}
	bombs := map[string]string{
		"five parts":                       "e30.e30.e30.e30.e30",
		"compressed":                       b64([]byte(`{"alg":"RS256","zip":"DEF"}`)) + "." + b64(make([]byte, 30_000)) + ".e30",
		"key derivation":                   b64([]byte(`{"alg":"PBES2-HS256+A128KW","p2c":1000000000,"enc":"A128GCM"}`)) + ".e30.e30.e30.e30",
		"no key":                           b64([]byte(`{"alg":"dir","enc":"A128GCM"}`)) + "..e30.e30.e30",
		"dots":                             strings.Repeat(".", authn.MaxTokenBytes),
		"equals":                           strings.Repeat("=", authn.MaxTokenBytes),
		"nested header":                    b64([]byte(strings.Repeat(`{"a":`, 5000))) + "." + b64([]byte(iss+`1}`)) + ".e30",
		"nested claims":                    key.Sign(map[string]any{"alg": "RS256"}, []byte(iss+strings.Repeat("[", fill/2)+strings.Repeat("]", fill/2)+"}")),
		"nested claims that nobody signed": b64([]byte(`{"alg":"RS256"}`)) + "." + b64([]byte(iss+strings.Repeat("[", fill/2)+strings.Repeat("]", fill/2)+"}")) + ".e30",
		"many claims that nobody signed":   b64([]byte(`{"alg":"RS256"}`)) + "." + b64([]byte(iss+"{"+strings.TrimSuffix(members.String(), ",")+"}}")) + ".e30",
		"many claims":                      key.Sign(map[string]any{"alg": "RS256"}, []byte(iss+"{"+strings.TrimSuffix(members.String(), ",")+"}}")),
		"thousands of audiences":           key.Sign(map[string]any{"alg": "RS256"}, []byte(strings.Replace(iss, `"kindwright"`, `["kindwright"`+strings.Repeat(`,"a"`, fill/4)+"]", 1)+"1}")),
		"too long":                         strings.Repeat("a", authn.MaxTokenBytes+1),
	}
	accepted(t, a, key.Sign(map[string]any{"alg": "RS256"}, []byte(iss+"1}")))
	for name, token := range bombs {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, ok, _ := a.Authenticate(request(t, token))
			runtime.ReadMemStats(&after)
			require.Equal(t, name == "many claims", ok, "the issuer may sign as many claims as it likes")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "all that was allocated, garbage included")
		})
	}
	u, ok, err := a.Authenticate(&http.Request{Header: http.Header{}})
	require.NoError(t, err)
	require.False(t, ok)
	require.Empty(t, u.Name)
}
