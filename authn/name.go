package authn

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The prefixes of names with a fixed meaning.
const (
	// SystemPrefix begins the names of users and groups that belong to the system.
	SystemPrefix = "system:"

	// ServiceAccountPrefix begins the names of service accounts. Only an authenticator that issues
	// their credentials, or is told to trust somebody who does, may return such a user.
	ServiceAccountPrefix = "system:serviceaccount:"
)

// CheckText returns "" if a text may be the name of a user or a group, a uid, or another fact about
// a user, or else the reason why not. Characters that do not show, or change how others show, are
// not allowed: they could end a line of a log or make one name look like another. [Middleware]
// rejects users with such texts. Source: security vectors A11, D1.
func CheckText(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			plain = false
			break
		}
	}
	switch {
	case plain:
		return ""
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, hidden):
		return "has a control character or a format character"
	}
	return ""
}

// hidden reports whether a character does not show: control and format characters, separators of
// lines, private and unassigned ones. A blank that is not U+0020 looks like one that is.
func hidden(r rune) bool {
	return r != ' ' && !unicode.IsGraphic(r) || r != ' ' && unicode.Is(unicode.Zs, r) || r == utf8.RuneError
}

// CheckName returns "" if a text from a credential may name a user or a group, or else the reason
// why not. Beyond [CheckText], it rejects blanks at the ends and names that only look as if they
// began with system:, such as "System:masters" and "ѕystem:masters" with a Cyrillic letter. People
// who read a role binding or a log would take them for the real ones.
func CheckName(s string) string {
	if why := CheckText(s); why != "" {
		return why
	}
	if s != strings.TrimSpace(s) {
		return "begins or ends with a blank"
	}
	rest, system := strings.CutPrefix(s, SystemPrefix)
	switch {
	case system && strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "begins with system: and has a blank or a character outside ASCII"
	case system && reservedInAnotherCase(s):
		return "is a name of the system in another case"
	case !system && looksLikeSystem(s):
		return "looks as if it began with system:"
	}
	return ""
}

func reservedInAnotherCase(s string) bool {
	for _, reserved := range []string{UserAnonymous, GroupUnauthenticated, GroupAuthenticated, GroupMasters} {
		if s != reserved && strings.EqualFold(s, reserved) {
			return true
		}
	}
	n := len(ServiceAccountPrefix)
	return len(s) >= n && s[:n] != ServiceAccountPrefix && strings.EqualFold(s[:n], ServiceAccountPrefix)
}

// lookalikes are letters of other scripts that look like those of "system".
var lookalikes = map[rune]rune{
	'ѕ': 's', 'ꜱ': 's', 'ʂ': 's', 'ս': 's', 'ш': 'w', 'у': 'y', 'ү': 'y', 'γ': 'y', 'ʏ': 'y', 'ყ': 'y', 'т': 't', 'τ': 't', 'ᴛ': 't',
	'е': 'e', 'ҽ': 'e', 'ε': 'e', 'ᴇ': 'e', 'є': 'e', '℮': 'e', 'м': 'm', 'ᴍ': 'm', 'ⅿ': 'm', 'μ': 'm',
}

// colons are characters that look like a colon.
const colons = ":：ː∶꞉։׃܃܄︓﹕᛬˸"

// looksLikeSystem compares the beginning of a name with "system:". A letter outside ASCII may stand
// for any letter, if two others are recognized: nobody knows all look-alikes.
func looksLikeSystem(s string) bool {
	end := strings.IndexAny(s, colons)
	if end < 0 {
		return false
	}
	const word = "system"
	at, same := 0, 0
	for _, r := range s[:end] {
		if r == ' ' || unicode.Is(unicode.Mn, r) {
			continue
		}
		if at == len(word) {
			return false
		}
		switch want := rune(word[at]); {
		case plainLetter(r) == want:
			same++
		case r < utf8.RuneSelf:
			return false
		}
		at++
	}
	return at == len(word) && same >= 2
}

// plainLetter returns the ASCII letter in lower case that a character looks like, if one is known.
func plainLetter(r rune) rune {
	switch {
	case r >= 'Ａ' && r <= 'ｚ': // full width
		r -= 'Ａ' - 'A'
	case r >= 0x1d400 && r <= 0x1d6a3: // mathematical, thirteen alphabets in both cases
		r = 'a' + (r-0x1d400)%26
	case r >= 'ⓐ' && r <= 'ⓩ':
		r -= 'ⓐ' - 'a'
	}
	r = unicode.ToLower(r)
	if plain, ok := lookalikes[r]; ok {
		return plain
	}
	if r == 'ſ' {
		return 's'
	}
	return r
}

// errServiceAccount is why a credential may not name a service account.
var errServiceAccount = errors.New("names a service account, which only a token of its issuer can: take a name that does not begin with system:serviceaccount")

// CheckIssued checks a user that comes from a credential which somebody else has issued: the names
// of the user and the groups, by [CheckName], and the uid. The anonymous user and group stand for no
// credential, and service accounts belong to those who issue their tokens, unless accounts is set.
// Packages x509 and token call it, and an authenticator of a program should.
func CheckIssued(u User, accounts bool) error {
	if why := CheckName(u.Name); why != "" {
		return fmt.Errorf("user name %s", why)
	}
	if why := CheckText(u.UID); why != "" {
		return fmt.Errorf("uid %s", why)
	}
	for _, group := range u.Groups {
		if why := CheckName(group); why != "" {
			return fmt.Errorf("group %s", why)
		}
		if !accounts && (group == strings.TrimSuffix(ServiceAccountPrefix, ":")+"s" || strings.HasPrefix(group, "system:serviceaccounts:")) {
			return errServiceAccount
		}
	}
	if u.IsAnonymous() {
		return fmt.Errorf("stands for %q or %q, which is no credential", UserAnonymous, GroupUnauthenticated)
	}
	if !accounts && strings.HasPrefix(u.Name, ServiceAccountPrefix) {
		return errServiceAccount
	}
	return nil
}

// checkTexts checks what an authenticator says about a user.
func checkTexts(u *User) error {
	if why := CheckText(u.Name); why != "" {
		return fmt.Errorf("the name of the user %s", why)
	}
	if why := CheckText(u.UID); why != "" {
		return fmt.Errorf("the uid of the user %s", why)
	}
	for _, group := range u.Groups {
		if why := CheckText(group); why != "" {
			return fmt.Errorf("a group of the user %s", why)
		}
	}
	for key, values := range u.Extra {
		if why := CheckText(key); why != "" {
			return fmt.Errorf("an extra key of the user %s", why)
		}
		for _, v := range values {
			if why := CheckText(v); why != "" {
				return fmt.Errorf("an extra value of the user %s", why)
			}
		}
	}
	return nil
}
