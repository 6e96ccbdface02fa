package jwt_test

import (
	"fmt"

	"github.com/kindwright/kindwright/authn/jwt"
)

func Example() {
	c, err := jwt.Parse([]byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://login.example.com
    audiences: [books]
  claimMappings:
    username:
      expression: claims.email
`))
	fmt.Println(len(c.JWT), err != nil)
	prefix := "login:"
	c.JWT[0].ClaimMappings.Username = jwt.PrefixedClaimOrExpression{Claim: "sub", Prefix: &prefix}
	fmt.Println(c.Validate())
	// jwt.New(c, jwt.Options{}) makes an authenticator of it, for kindwright.Authenticate.

	// Output:
	// 1 true
	// <nil>
}
