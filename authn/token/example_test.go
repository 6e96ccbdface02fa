package token_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright/authn/token"
)

func ExampleRead() {
	tokens, err := token.Read(strings.NewReader(`3f9a,alice,1001,"dev,ops"`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/apis", nil)
	r.Header.Set("Authorization", "Bearer 3f9a")
	u, ok, err := tokens.Authenticate(r)
	fmt.Println(u.Name, u.UID, u.Groups, ok, err)
	// Output: alice 1001 [dev ops] true <nil>
}
