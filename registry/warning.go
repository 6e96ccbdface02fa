package registry

import (
	"context"

	"github.com/kindwright/kindwright/internal/request"
)

// Warn adds a warning to the answer of the request that ctx belongs to, for people to read: a Warning header over HTTP
// (ERR-27). It does nothing where nobody collects warnings. Safe for concurrent use.
func Warn(ctx context.Context, msg string) { request.Warn(ctx, msg) }
