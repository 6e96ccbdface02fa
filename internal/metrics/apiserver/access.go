package apiserver

import (
	"strings"
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

// Access has the families about authentication and authorization.
type Access struct {
	authentication [authentications]attempt
	authorization  [authorizations]attempt
	users          [len(userNames)]*metrics.Counter
}

// An attempt is counted in two families.
type attempt struct {
	count *metrics.Counter
	took  *metrics.Histogram
}

func (a *attempt) observe(took time.Duration) {
	a.count.Inc()
	a.took.Observe(took.Seconds())
}

// NewAccess registers the families of access.
func NewAccess(r *metrics.Registry) *Access {
	a := new(Access)
	result, bounds := []string{"result"}, metrics.Exponential(0.001, 2, 15)
	counts := metrics.Counters(r, metrics.Desc{Name: "authentication_attempts", Labels: result, Help: "Attempts to find out who asks."})
	times := metrics.Histograms(r, metrics.Desc{Name: "authentication_duration_seconds", Labels: result, Help: "Time to find out who asks."}, bounds)
	for i, name := range authenticationNames {
		a.authentication[i] = attempt{counts.With(name), times.With(name)}
	}
	counts = metrics.Counters(r, metrics.Desc{Name: "authorization_attempts_total", Labels: result, Help: "Questions whether somebody may do something."})
	times = metrics.Histograms(r, metrics.Desc{Name: "authorization_duration_seconds", Labels: result, Help: "Time to find out whether somebody may do something."}, bounds)
	for i, name := range authorizationNames {
		a.authorization[i] = attempt{counts.With(name), times.With(name)}
	}
	users := metrics.Counters(r, metrics.Desc{
		Name: "authenticated_user_requests", Labels: []string{"username"},
		Help: "Requests by user. Names other than a few well-known ones are counted together.",
	})
	for i, name := range userNames {
		a.users[i] = users.With(name)
	}
	return a
}

// Authentication counts an attempt. The name of the user matters if it succeeded.
func (a *Access) Authentication(how Authentication, user string, took time.Duration) {
	if how >= authentications {
		how = AuthenticationFailed
	}
	a.authentication[how].observe(took)
	if how == Authenticated {
		a.users[userIndex(user)].Inc()
	}
}

// Authorization counts a question.
func (a *Access) Authorization(how Authorization, took time.Duration) {
	if how >= authorizations {
		how = AuthorizationFailed
	}
	a.authorization[how].observe(took)
}

// userNames are the users that are counted by name, and two groups of others. Names come from clients, so
// there must be no more.
var userNames = [...]string{"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default", "email_id", "other"}

func userIndex(user string) int {
	const groups = 2
	known := len(userNames) - groups
	for i, name := range userNames[:known] {
		if user == name {
			return i
		}
	}
	if strings.Contains(user, "@") {
		return known
	}
	return known + 1
}
