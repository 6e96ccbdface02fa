package jws_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/jws"
)

func Example() {
	keys, err := jws.ParseKeys([]byte(`{"keys":[{"kty":"EC","kid":"k1","crv":"P-256",`+
		`"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`), 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = jws.Verify("eyJhbGciOiJub25lIn0.e30.", keys, []string{"ES256"})
	fmt.Println(err)
	// Output: not a signed token in compact form
}
