package authn_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
)

func TestS21_TextsThatDoNotShowAreNotAccepted(t *testing.T) {
	for _, s := range []string{"a\x00b", "a\nb", "a\x1b[31m", "a\x7f", "a\u0085b", "a\u202eb", "a\u2028b", "a\u2029b", "a\u200bb", "a\ufeffb", "a\u00adb", "a\ue000b", "a\u00a0b", "a\xffb", "\U000e0041"} {
		require.NotEmpty(t, authn.CheckText(s), "%q", s)
		for _, u := range []authn.User{
			{Name: s},
			{Name: "a", UID: s},
			{Name: "a", Groups: []string{"dev", s}},
			{Name: "a", Extra: map[string][]string{s: {"x"}}},
			{Name: "a", Extra: map[string][]string{"k": {"x", s}}},
		} {
			refused(t, authn.Func(func(*http.Request) (authn.User, bool, error) { return u, true, nil }), get())
		}
	}
	for _, s := range []string{"", "alice", "Ann Lee", "zoë", "李雷", "мария", "ann@example.com", "CN=a,O=b", "oidc:dev/ops", "a😀"} {
		require.Empty(t, authn.CheckText(s), "%q", s)
	}
}

func TestS21_LookAlikesOfTheSystem(t *testing.T) {
	for _, s := range []string{
		"System:masters", "SYSTEM:masters", "system:Masters", "system:masters ", " system:masters", "system :masters", "ѕystem:masters",
		"ѕуѕтем:masters", "ｓｙｓｔｅｍ：masters", "system：masters", "syſtem:masters", "sуstem:x", "𝐬𝐲𝐬𝐭𝐞𝐦:masters", "ⓢⓨⓢⓣⓔⓜ:masters", "s\u0308ystem:masters",
		"system:mаsters", "system:serviceaccоunt:a:b", "system:ServiceAccount:a:b", "System:anonymous", "ꜱyꜱtem∶masters", "system:a b",
	} {
		require.NotEmpty(t, authn.CheckName(s), "%q", s)
		require.Error(t, authn.CheckIssued(authn.User{Name: s}, true), "%q", s)
		require.Error(t, authn.CheckIssued(authn.User{Name: "a", Groups: []string{s}}, true), "%q", s)
	}
	for _, s := range []string{
		"system:masters", "system:node:n1", "system:kube-scheduler", "systems:x", "mysystem:x", "системы:x", "система", "москва:x",
		"Ann Lee", "oidc:system:masters", "company:dev", "Müller:dev", "systém", "custom:x", "stream:x",
	} {
		require.Empty(t, authn.CheckName(s), "%q", s)
	}
}

func TestS21_J9_ServiceAccountsBelongToTheirIssuer(t *testing.T) {
	for _, u := range []authn.User{
		{Name: "system:serviceaccount:kube-system:admin"},
		{Name: "a", Groups: []string{"system:serviceaccounts"}},
		{Name: "a", Groups: []string{"system:serviceaccounts:kube-system"}},
	} {
		require.Error(t, authn.CheckIssued(u, false))
		require.NoError(t, authn.CheckIssued(u, true))
	}
	require.NoError(t, authn.CheckIssued(authn.User{Name: "system:serviceaccounting"}, false))
	require.Error(t, authn.CheckIssued(authn.User{Name: authn.UserAnonymous}, true))
	require.Error(t, authn.CheckIssued(authn.User{Name: "a", UID: "1\x00"}, true))
}
