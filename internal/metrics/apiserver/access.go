package apiserver

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// Authentication is how an attempt to find out who asks ended.
type Authentication uint8

// How it can end.
const (
	Authenticated   Authentication = iota
	Unauthenticated                // nobody knows the credentials, or there were none
	AuthenticationFailed
	authentications
)

var authenticationNames = [authentications]string{"success", "failure", "error"}

// Authorization is how the question whether somebody may do something ended.
type Authorization uint8

// How it can end.
const (
	Allowed Authorization = iota
	Denied
	NoOpinion
	AuthorizationFailed
	authorizations
)

var authorizationNames = [authorizations]string{"allowed", "denied", "no-opinion", "error"}

// The families of Access. The numbers of attempts are those of their durations. A filter is a link of
// the request chain, or several that follow each other: "parse" is all before authentication, and
// what follows authorization does not wait for anything.
const (
	authenticationAttempts = iota
	authenticationDuration
	authorizationAttempts
	authorizationDuration
	userRequests
	filterDuration
)

var accessFamilies = [...]metrics.Desc{
	authenticationAttempts: counter("authentication_attempts", "Attempts to find out who asks.", "result"),
	authenticationDuration: histogram("authentication_duration_seconds", "Time to find out who asks.", "result"),
	authorizationAttempts:  counter("authorization_attempts_total", "Questions whether somebody may do something.", "result"),
	authorizationDuration:  histogram("authorization_duration_seconds", "Time to find out whether somebody may do something.", "result"),
	userRequests:           counter("authenticated_user_requests", "Requests by user. Names other than a few well-known ones are counted together.", "username"),
	filterDuration:         histogram("apiserver_request_filter_duration_seconds", "Time that the links of the request chain take up to this one, without those of other filters.", "filter"),
}

var (
	accessTimes = metrics.Exponential(0.001, 2, 15)
	filterTimes = []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 5, 10, 15, 30}
	bothTimes   = merge(accessTimes, filterTimes)
)

func merge(a, b []float64) []float64 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Access counts how requests are authenticated and authorized.
type Access struct {
	authentication [authentications]*metrics.Histogram
	authorization  [authorizations]*metrics.Histogram
	parsing        *metrics.Histogram
	users          [len(userNames)]atomic.Uint64
}

// NewAccess registers the families of access.
func NewAccess(r *metrics.Registry) *Access {
	a := &Access{parsing: metrics.NewHistogram(filterTimes)}
	for i := range a.authentication {
		a.authentication[i] = metrics.NewHistogram(bothTimes)
	}
	for i := range a.authorization {
		a.authorization[i] = metrics.NewHistogram(bothTimes)
	}
	r.Collect(accessFamilies[:], func(b *metrics.Batch) {
		for i, h := range a.authentication {
			b.Add(authenticationAttempts, float64(h.Count()), authenticationNames[i])
			b.Observed(authenticationDuration, h, accessTimes, authenticationNames[i])
			b.Observed(filterDuration, h, filterTimes, "authentication")
		}
		for i, h := range a.authorization {
			b.Add(authorizationAttempts, float64(h.Count()), authorizationNames[i])
			b.Observed(authorizationDuration, h, accessTimes, authorizationNames[i])
			b.Observed(filterDuration, h, filterTimes, "authorization")
		}
		b.Observed(filterDuration, a.parsing, filterTimes, "parse")
		for i := range a.users {
			b.Add(userRequests, float64(a.users[i].Load()), userNames[i])
		}
	})
	return a
}

// Authentication counts an attempt, by the time since the request came in at which it began and
// ended. The name of the user matters if it succeeded.
func (a *Access) Authentication(how Authentication, user string, began, ended time.Duration) {
	a.parsing.Observe(began.Seconds())
	a.authentication[min(how, AuthenticationFailed)].Observe((ended - began).Seconds())
	if how != Authenticated {
		return
	}
	i := 0
	for i < knownUsers && user != userNames[i] {
		i++
	}
	if i == knownUsers && !strings.Contains(user, "@") {
		i++
	}
	a.users[i].Add(1)
}

// Authorization counts a question.
func (a *Access) Authorization(how Authorization, took time.Duration) {
	a.authorization[min(how, AuthorizationFailed)].Observe(took.Seconds())
}

// userNames are the users that are counted by name, and two groups of others: those with an @ and
// the rest. Names come from clients, so there must be no more.
var userNames = [...]string{"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default", "email_id", "other"}

const knownUsers = len(userNames) - 2
