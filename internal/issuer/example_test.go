package issuer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kindwright/kindwright/internal/issuer"
)

func TestTokensNameTheirIssuer(t *testing.T) {
	i := issuer.New(t)
	for _, key := range []issuer.Key{issuer.RSA(t, "r"), issuer.ECDSA(t, "e")} {
		i.Publish(key)
		if token := i.Token(nil); strings.Count(token, ".") != 2 {
			t.Error(token)
		}
		if set := string(i.Set()); !strings.Contains(set, `"kid":"`+key.ID+`"`) {
			t.Error(set)
		}
	}
}

func Example() {
	i := &issuer.Issuer{URL: "https://login.example.com"}
	claims := i.Claims(map[string]any{"sub": "bob", "aud": nil})
	_, meant := claims["aud"]
	fmt.Println(claims["iss"], claims["sub"], meant)
	// Output: https://login.example.com bob false
}
