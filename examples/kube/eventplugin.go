package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	rates "k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/status"
)

// EventRateLimitName is the name of the plugin.
const EventRateLimitName = "EventRateLimit"

// An EventLimit is one limit of [EventRateLimitPlugin].
type EventLimit struct {
	// Type says what the events share the limit with: Server, Namespace, User, or SourceAndObject.
	Type string `json:"type"`

	// QPS is how many events per second are accepted once Burst is used up.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`

	// CacheSize is how many namespaces, users or sources are remembered. Default 4096.
	CacheSize int32 `json:"cacheSize"`
}

// eventShares say which limit counts for an event, by the type of the limit.
func eventShares() map[string]func(r *admission.Request) string {
	return map[string]func(*admission.Request) string{
		"Server":    func(*admission.Request) string { return "" },
		"Namespace": func(r *admission.Request) string { return r.Namespace },
		"User":      func(r *admission.Request) string { return r.User.Name },
		"SourceAndObject": func(r *admission.Request) string {
			var out strings.Builder
			for _, field := range []string{"component", "host"} {
				out.WriteString(word(at(r.Object, "source", field)))
			}
			for _, field := range []string{"kind", "namespace", "name", "uid", "apiVersion"} {
				out.WriteString(word(at(r.Object, "involvedObject", field)))
			}
			return out.String()
		},
	}
}

// CheckEventLimits returns what is wrong with the limits of a configuration.
func CheckEventLimits(all []EventLimit) error {
	f := &status.Fields{}
	if len(all) == 0 {
		f.At("limits").Invalid(nil, "must not be empty")
	}
	for i, l := range all {
		one := f.At("limits").Index(i)
		oneOf(one.Child("type"), l.Type, "Namespace", "Server", "SourceAndObject", "User")
		if l.Burst <= 0 {
			one.Child("burst").Invalid(l.Burst, "must be positive")
		}
		if l.QPS <= 0 {
			one.Child("qps").Invalid(l.QPS, "must be positive")
		}
		if l.Type != "Server" && l.CacheSize < 0 {
			one.Child("cacheSize").Invalid(l.CacheSize, "must not be negative")
		}
	}
	if wrong := f.Errors(); len(wrong) > 0 {
		return fmt.Errorf("%v", wrong)
	}
	return nil
}

// EventRateLimitPlugin returns the plugin EventRateLimit: events that come faster than a limit allows
// are answered with 429. The limits are those that [CheckEventLimits] finds nothing wrong with.
func EventRateLimitPlugin(limits ...EventLimit) admission.Plugin {
	return eventRateLimit(clock.RealClock{}, limits)
}

func eventRateLimit(now rates.Clock, limits []EventLimit) admission.Plugin {
	var all []*eventLimit
	for _, l := range limits {
		size := int(l.CacheSize)
		if size == 0 {
			size = 4096
		}
		all = append(all, &eventLimit{EventLimit: l, share: eventShares()[l.Type], now: now, buckets: lru.New(size)})
	}
	return admission.Plugin{
		Name:  EventRateLimitName,
		Rules: []admission.Rule{onCore(admission.Create, "events"), onCore(admission.Update, "events")},
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.DryRun {
				return nil
			}
			var why []string
			for _, l := range all {
				if text := l.take(r); text != "" && !slices.Contains(why, text) {
					why = append(why, text)
				}
			}
			switch len(why) {
			case 0:
				return nil
			case 1:
				return status.TooManyRequests("Too many requests: "+why[0], 0)
			}
			return status.TooManyRequests("Too many requests: ["+strings.Join(why, ", ")+"]", 0)
		}),
	}
}

// eventLimit is a limit at work.
type eventLimit struct {
	EventLimit
	share func(*admission.Request) string
	now   rates.Clock

	mu      sync.Mutex
	buckets *lru.Cache // of rates.RateLimiter, by share
}

// take counts an event, and says why it is refused if it is.
func (l *eventLimit) take(r *admission.Request) string {
	key := l.share(r)
	l.mu.Lock()
	bucket, known := l.buckets.Get(key)
	if !known {
		bucket = rates.NewTokenBucketRateLimiterWithClock(float32(l.QPS), int(l.Burst), l.now)
		l.buckets.Add(key, bucket)
	}
	l.mu.Unlock()
	if bucket.(rates.RateLimiter).TryAccept() { //nolint:forcetypeassert // nothing else is in there
		return ""
	}
	return fmt.Sprintf("limit reached on type %v for key %v", l.Type, key)
}
