package registry

import (
	"context"

	"github.com/kindwright/kindwright/internal/request"
)

// Warn adds a warning to the answer of the request that ctx belongs to, for people to read: a
// Warning header over HTTP. It does nothing where nobody collects warnings. Safe for concurrent
// use.
// Source: ERR-27.
func Warn(ctx context.Context, msg string) { request.Warn(ctx, msg) }
