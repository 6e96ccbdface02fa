package encrypt

import (
	"context"
	"errors"
)

// CheckPlugins returns which plugins of the rules cannot be used, or nil.
func (e *Backend) CheckPlugins(ctx context.Context) error {
	var problems []error
	for _, p := range e.rules.Load().kms {
		problems = append(problems, p.Check(ctx))
	}
	return errors.Join(problems...)
}
