package external

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/unary"
)

// callTimeout bounds one call.
const callTimeout = 10 * time.Second

// caller calls the methods of the signer.
type caller struct{ client *unary.Client }

func newCaller(socket string) *caller {
	return &caller{unary.New(socket, "v1.ExternalJWTSigner", callTimeout)}
}

// call sends a message and returns the answer.
func (c *caller) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	answer, err := c.client.Call(ctx, method, message)
	return answer, about(method, err)
}

// about says which method an error is about.
func about(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("external signer: %s: %w", method, err)
}
