package controllermanager

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Block is what a configuration says about one controller: how many syncs run at once, how long events
// are collected before a sync, and whatever else that controller knows. Members are found with a capital
// first letter and with a small one. Source: CTRLMGR-11.
type Block map[string]any

// Count returns a member that counts something, such as ConcurrentDeploymentSyncs. It is otherwise if the
// block does not have it.
func (b Block) Count(name string, otherwise int32) (int32, error) {
	switch n := b.member(name).(type) {
	case nil:
		return otherwise, nil
	case int64:
		if n >= 0 && n <= math.MaxInt32 {
			return int32(n), nil
		}
	}
	return 0, fmt.Errorf("%s: %v is not a count: a whole number from 0 to %d", name, b.member(name), math.MaxInt32)
}

// Period returns a member that is a duration, such as EndpointUpdatesBatchPeriod. It is otherwise if the
// block does not have it.
func (b Block) Period(name string, otherwise time.Duration) (time.Duration, error) {
	switch s := b.member(name).(type) {
	case nil:
		return otherwise, nil
	case string:
		if d, err := meta.ParseDuration(s); err == nil && d.Duration >= 0 {
			return d.Duration, nil
		}
	}
	return 0, fmt.Errorf("%s: %v is not a duration such as 500ms", name, b.member(name))
}

func (b Block) member(name string) any {
	if v, ok := b[name]; ok {
		return v
	}
	for _, first := range []string{strings.ToUpper(name[:min(1, len(name))]), strings.ToLower(name[:min(1, len(name))])} {
		if v, ok := b[first+name[min(1, len(name)):]]; ok {
			return v
		}
	}
	return nil
}

// check reports members whose names say what they are, and which are something else.
func (b Block) check(at status.Field) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		var err error
		switch {
		case strings.Contains(name, "Concurrent"), strings.HasPrefix(name, "concurrent"):
			_, err = b.Count(name, 0)
		case strings.HasSuffix(name, "Period"):
			_, err = b.Period(name, 0)
		}
		if err != nil {
			_, why, _ := strings.Cut(err.Error(), ": ")
			at.Child(name).Invalid(b[name], why)
		}
	}
}
