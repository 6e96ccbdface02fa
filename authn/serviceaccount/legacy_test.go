package serviceaccount_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/internal/metrics"
)

// legacyClaims are those of a token in the Secret old of the account robot.
func legacyClaims() map[string]any {
	return map[string]any{
		"iss": serviceaccount.LegacyIssuer, "sub": "system:serviceaccount:default:robot",
		"kubernetes.io/serviceaccount/namespace":            "default",
		"kubernetes.io/serviceaccount/secret.name":          "old",
		"kubernetes.io/serviceaccount/service-account.name": "robot",
		"kubernetes.io/serviceaccount/service-account.uid":  "u1",
	}
}

// legacyWorld has a token in a Secret.
func legacyWorld(t *testing.T, o serviceaccount.Options) (w *world, token string, sign func(map[string]any) string) {
	t.Helper()
	key := ecKey(t)
	signer, err := serviceaccount.NewSigner(key)
	require.NoError(t, err)
	o.Signer = signer
	o.Keys, err = serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Public()})
	require.NoError(t, err)
	sign = func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		require.NoError(t, err)
		token, err := signer.Sign(t.Context(), text)
		require.NoError(t, err)
		return token
	}
	w, token = newWorld(t, o), sign(legacyClaims())
	w.put(accountsOf, "default", "robot", "u1", `,"secrets":[{"name":"other"}]`)
	w.put("secrets", "default", "old", "u2", secretOf(token))
	return w, token, sign
}

func secretOf(token string) string {
	return `,"data":{"token":"` + base64.StdEncoding.EncodeToString([]byte(token)) + `"}`
}

func TestLegacyTokensAreThoseInTheirSecrets(t *testing.T) {
	w, token, sign := legacyWorld(t, serviceaccount.Options{Legacy: true, Audiences: []string{"api"}})
	u := w.accepts(t, token)
	require.Equal(t, "system:serviceaccount:default:robot", u.Name)
	require.Equal(t, []string{"api"}, u.Audiences)
	require.Equal(t, "u1", u.UID)
	require.Zero(t, u.Expires)
	require.Empty(t, u.Extra)

	w.put("secrets", "default", "old", "u2", secretOf(token+"x"))
	w.rejects(t, token, "not the one in its Secret")
	w.put("secrets", "default", "old", "u2", "")
	w.rejects(t, token, "not the one in its Secret")
	w.remove("secrets", "default", "old")
	w.rejects(t, token, "has been invalidated")
	w.put("secrets", "default", "old", "u2", secretOf(token))
	w.accepts(t, token)
	w.remove("secrets", "default", "old", time.Now().Add(time.Hour))
	w.rejects(t, token, "has been invalidated")
	w.put("secrets", "default", "old", "u2", secretOf(token))
	w.put(accountsOf, "default", "robot", "u9", "")
	w.rejects(t, token, "is gone")
	w.remove(accountsOf, "default", "robot")
	w.rejects(t, token, "is gone")

	for name, value := range map[string]any{
		"sub": "system:serviceaccount:default:admin", "kubernetes.io/serviceaccount/namespace": "", "kubernetes.io/serviceaccount/secret.name": "",
		"kubernetes.io/serviceaccount/service-account.name": "admin", "kubernetes.io/serviceaccount/service-account.uid": "",
		"aud": []string{"api"}, "exp": 1 << 40,
	} {
		claims := legacyClaims()
		claims[name] = value
		w.rejects(t, sign(claims), "token of a service account")
	}
}

func TestLegacyTokensAreAnOption(t *testing.T) {
	w, token, _ := legacyWorld(t, serviceaccount.Options{})
	_, ok, err := w.check.Authenticate(request(token))
	require.False(t, ok)
	require.NoError(t, err, "they are left to other authenticators")
	require.False(t, w.tokens.AcceptsLegacy())

	w, token, _ = legacyWorld(t, serviceaccount.Options{Issuers: []string{serviceaccount.LegacyIssuer}})
	w.rejects(t, token, "its issuer is not accepted")
	w.accepts(t, w.token(t, serviceaccount.TokenRequest{}))

	w, token, _ = legacyWorld(t, serviceaccount.Options{Legacy: true, TrustLegacy: true})
	w.remove("secrets", "default", "old")
	w.remove(accountsOf, "default", "robot")
	w.accepts(t, token)
	require.False(t, w.tokens.AcceptsLegacy())
}

func TestLegacyTokensTellWhenTheyWereUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, token, _ := legacyWorld(t, serviceaccount.Options{Legacy: true})
		var mu sync.Mutex
		var uses []serviceaccount.Use
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.tokens.Record(ctx, func(_ context.Context, u serviceaccount.Use) {
				mu.Lock()
				defer mu.Unlock()
				uses = append(uses, u)
				w.put("secrets", "default", "old", "u2", secretOf(token), serviceaccount.LastUsedLabel, u.Day)
			})
		}()
		for range 3 {
			w.accepts(t, token)
			synctest.Wait()
			time.Sleep(time.Hour)
		}
		today := time.Now().UTC().Format(time.DateOnly)
		require.Equal(t, []serviceaccount.Use{{Namespace: "default", Secret: "old", UID: "u2", Day: today}}, uses)
		time.Sleep(24 * time.Hour)
		w.accepts(t, token)
		synctest.Wait()
		require.Len(t, uses, 2)

		w.put("secrets", "default", "old", "u2", secretOf(token), serviceaccount.InvalidSinceLabel, today)
		w.rejects(t, token, "the token in secret default/old for service account default/robot has been marked invalid")
		synctest.Wait()
		require.Len(t, uses, 3, "a use of a token that is invalid is one")
		stop()
		<-done
	})
}

// The metrics of Kubernetes tell an operator who still uses old tokens.
func TestMETRICS_UsesOfOldTokens(t *testing.T) {
	count := func(w *world) string {
		var r metrics.Registry
		w.tokens.CollectMetrics(&r)
		var text strings.Builder
		require.NoError(t, metrics.Write(&text, r.Families()))
		return text.String()
	}
	w, token, _ := legacyWorld(t, serviceaccount.Options{Legacy: true})
	w.accepts(t, token)
	w.put(accountsOf, "default", "robot", "u1", `,"secrets":[{"name":"old"}]`)
	w.accepts(t, token)
	w.accepts(t, token)
	w.put("secrets", "default", "old", "u2", secretOf(token), serviceaccount.InvalidSinceLabel, "2026-01-01")
	w.rejects(t, token, "marked invalid")
	for name, want := range map[string]string{
		"legacy_tokens_total": "4", "legacy_manual_token_uses_total": "1", "legacy_auto_token_uses_total": "2",
		"invalid_legacy_auto_token_uses_total": "1", "stale_tokens_total": "0", "valid_tokens_total": "0",
	} {
		require.Contains(t, count(w), "\nserviceaccount_"+name+" "+want+"\n")
	}

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, serviceaccount.Options{Extend: true})
		w.put(accountsOf, "default", "robot", "u1", "")
		w.put("pods", "default", "p", "u2", `,"spec":{"serviceAccountName":"robot"}`)
		asked, seconds := bound("Pod", "p", ""), int64(3607)
		asked.Spec.ExpirationSeconds = &seconds
		token := w.token(t, asked)
		w.accepts(t, token)
		w.accepts(t, token)
		time.Sleep(2 * time.Hour) // a client that does not read its file again
		w.accepts(t, token)
		require.Contains(t, count(w), "\nserviceaccount_valid_tokens_total 2\n")
		require.Contains(t, count(w), "\nserviceaccount_stale_tokens_total 1\n")
	})
}
