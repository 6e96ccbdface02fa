package controllermanager

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/internal/pause"
)

// Controller is one of the controllers of a program.
type Controller struct {
	Name string

	// OnlyByName has it run only where it is named: "*" does not stand for it.
	OnlyByName bool

	// Run works until its context ends.
	Run func(ctx context.Context) error
}

// Enabled reports whether a controller runs. Source: CTRLMGR-07.
func (c Generic) Enabled(controller Controller) bool {
	for _, item := range c.Controllers {
		switch item {
		case controller.Name:
			return true
		case "-" + controller.Name:
			return false
		}
	}
	return slices.Contains(c.Controllers, "*") && !controller.OnlyByName
}

// Start runs those of the controllers that are enabled, in their order and ControllerStartInterval apart,
// and returns when all have returned. When one returns an error, or ctx ends, the others are told to
// return. The first error is returned. It is an error to name a controller that is not there.
// Source: CTRLMGR-05.
func (c Generic) Start(ctx context.Context, controllers ...Controller) error {
	if err := c.checkNames(controllers); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var once sync.Once
	var failed error
	first := true
	for _, one := range controllers {
		if !c.Enabled(one) {
			continue
		}
		if !first && pause.For(ctx, c.ControllerStartInterval.Duration) != nil {
			break
		}
		first = false
		all.Go(func() {
			if err := one.Run(ctx); err != nil {
				once.Do(func() { failed = fmt.Errorf("%s: %w", one.Name, err) })
				cancel(err)
			}
		})
	}
	all.Wait()
	return failed
}

func (c Generic) checkNames(controllers []Controller) error {
	for _, item := range c.Controllers {
		known := item == "*" || slices.ContainsFunc(controllers, func(one Controller) bool {
			return item == one.Name || item == "-"+one.Name
		})
		if !known {
			return fmt.Errorf("Controllers: %q is not in the list of known controllers", item) //nolint:staticcheck // it begins with the name of the field
		}
	}
	return nil
}
