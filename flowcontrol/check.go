package flowcontrol

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// CheckSchema reports what is wrong with the spec of a FlowSchema, in Kubernetes' words. at is the
// spec.
func CheckSchema(name string, s *FlowSchemaSpec, at status.Field) {
	switch p := s.MatchingPrecedence; {
	case p <= 0:
		at.Child("matchingPrecedence").Invalid(p, "must be a positive value")
	case p > 10_000:
		at.Child("matchingPrecedence").Invalid(p, "must not be greater than 10000")
	case p == 1 && name != NameExempt:
		at.Child("matchingPrecedence").Invalid(p, "only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if d := s.DistinguisherMethod; d != nil && d.Type != ByNamespace && d.Type != ByUser {
		at.Child("distinguisherMethod").Child("type").NotSupported(d.Type, ByNamespace, ByUser)
	}
	level := at.Child("priorityLevelConfiguration").Child("name")
	if s.PriorityLevelConfiguration.Name == "" {
		level.Required("must reference a priority level")
	} else if why := meta.CheckDNSSubdomain(s.PriorityLevelConfiguration.Name); why != "" {
		level.Invalid(s.PriorityLevelConfiguration.Name, why)
	}
	for i := range s.Rules {
		checkRule(&s.Rules[i], at.Child("rules").Index(i))
	}
	for _, fixed := range Mandatory().Schemas {
		if fixed.Name == name && !reflect.DeepEqual(*s, fixed.Spec) {
			at.Invalid(s, fmt.Sprintf("spec of '%s' must equal the fixed value", name))
		}
	}
}

func checkRule(r *Rule, at status.Field) {
	if len(r.Subjects) == 0 {
		at.Child("subjects").Required("subjects must contain at least one value")
	}
	for i := range r.Subjects {
		checkSubject(&r.Subjects[i], at.Child("subjects").Index(i))
	}
	if len(r.ResourceRules)+len(r.NonResourceRules) == 0 {
		at.Required("at least one of resourceRules and nonResourceRules has to be non-empty")
	}
	for i := range r.ResourceRules {
		checkResourceRule(&r.ResourceRules[i], at.Child("resourceRules").Index(i))
	}
	for i := range r.NonResourceRules {
		checkNonResourceRule(&r.NonResourceRules[i], at.Child("nonResourceRules").Index(i))
	}
}

func checkSubject(s *Subject, at status.Field) {
	for _, one := range []struct {
		kind, field string
		set         bool
		check       func(at status.Field)
	}{
		{SubjectServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(at status.Field) { checkAccount(s.ServiceAccount, at) }},
		{SubjectUser, "user", s.User != nil, func(at status.Field) { checkNamed(s.User, at) }},
		{SubjectGroup, "group", s.Group != nil, func(at status.Field) { checkNamed(s.Group, at) }},
	} {
		switch field := at.Child(one.field); {
		case one.kind != s.Kind && one.set && slices.Contains([]string{SubjectGroup, SubjectServiceAccount, SubjectUser}, s.Kind):
			field.Forbidden(fmt.Sprintf("%s is forbidden when subject kind is not '%s'", one.field, one.kind))
		case one.kind == s.Kind && !one.set:
			field.Required(fmt.Sprintf("%s is required when subject kind is '%s'", one.field, one.kind))
		case one.kind == s.Kind:
			one.check(field)
		}
	}
	if s.Kind != SubjectGroup && s.Kind != SubjectServiceAccount && s.Kind != SubjectUser {
		at.Child("kind").NotSupported(s.Kind, SubjectGroup, SubjectServiceAccount, SubjectUser)
	}
}

func checkNamed(n *Named, at status.Field) {
	if n.Name == "" {
		at.Child("name").Required("")
	}
}

func checkAccount(a *ServiceAccount, at status.Field) {
	if a.Name == "" {
		at.Child("name").Required("")
	} else if a.Name != "*" {
		if why := meta.CheckDNSSubdomain(a.Name); why != "" {
			at.Child("name").Invalid(a.Name, why)
		}
	}
	if a.Namespace == "" {
		at.Child("namespace").Required("must specify namespace for service account")
	} else if why := meta.CheckDNSLabel(a.Namespace); why != "" {
		at.Child("namespace").Invalid(a.Namespace, why)
	}
}

func checkResourceRule(r *ResourceRule, at status.Field) {
	checkVerbs(r.Verbs, at.Child("verbs"))
	checkStars(r.APIGroups, at.Child("apiGroups"), "resource rules must supply at least one api group", "api groups")
	checkStars(r.Resources, at.Child("resources"), "resource rules must supply at least one resource", "resources")
	namespaces := at.Child("namespaces")
	if len(r.Namespaces) == 0 {
		if !r.ClusterScope {
			namespaces.Required("resource rules that are not cluster scoped must supply at least one namespace")
		}
		return
	}
	if checkStars(r.Namespaces, namespaces, "", "namespaces"); slices.Contains(r.Namespaces, "*") {
		return
	}
	for i, name := range r.Namespaces {
		if why := meta.CheckDNSLabel(name); why != "" {
			namespaces.Index(i).Invalid(name, "each member of this list must be '*' or a DNS-1123 label; "+why)
		}
	}
}

func checkNonResourceRule(r *NonResourceRule, at status.Field) {
	checkVerbs(r.Verbs, at.Child("verbs"))
	paths := at.Child("nonResourceURLs")
	checkStars(r.NonResourceURLs, paths, "nonResourceURLs must contain at least one value", "non-resource URLs")
	if slices.Contains(r.NonResourceURLs, "*") {
		return
	}
	for i, path := range r.NonResourceURLs {
		if why := pathProblem(path); why != "" {
			paths.Index(i).Invalid(path, why)
		}
	}
}

// pathProblem says what is wrong with a path of a rule.
func pathProblem(path string) string {
	switch {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	}
	if star := strings.Index(path, "*"); star >= 0 && (star < len(path)-1 || !strings.HasSuffix(path, "/*")) {
		return "wildcard can only do suffix matching"
	}
	return ""
}

// checkStars checks a list that is not empty, and * alone if there is one.
func checkStars(list []string, at status.Field, empty, what string) {
	if len(list) == 0 {
		at.Required(empty)
	} else if slices.Contains(list, "*") && len(list) > 1 {
		at.Invalid(list, fmt.Sprintf("if '*' is present, must not specify other %s", what))
	}
}

func checkVerbs(verbs []string, at status.Field) {
	known := []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
	checkStars(verbs, at, "verbs must contain at least one value", "verbs")
	if !slices.Contains(verbs, "*") && slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(known, verb) }) {
		at.NotSupported(verbs, known...)
	}
}

// CheckLevel reports what is wrong with the spec of a PriorityLevelConfiguration, in Kubernetes'
// words. at is the spec.
func CheckLevel(name string, s *LevelSpec, at status.Field) {
	kind := at.Child("type")
	if s.Type == "" {
		kind.Required("")
		return
	}
	if s.Type != TypeExempt && s.Type != TypeLimited {
		kind.NotSupported(s.Type, TypeExempt, TypeLimited)
		return
	}
	if (name == NameExempt) != (s.Type == TypeExempt) {
		kind.Invalid(s.Type, "must be 'Exempt' if and only if `name` is 'exempt'")
	}
	if s.Type == TypeExempt {
		if s.Limited != nil {
			at.Child("limited").Forbidden("must be nil if the type is not Limited")
		}
		if e := s.Exempt; e != nil {
			checkShares(e.NominalConcurrencyShares, e.LendablePercent, at.Child("exempt"))
		}
	} else {
		checkLimited(s, at)
	}
	for _, fixed := range Mandatory().Levels {
		if fixed.Name != name || fixedLevel(s, &fixed.Spec) {
			continue
		}
		free := ""
		if name == NameExempt {
			free = " except the 'spec.exempt' field"
		}
		at.Invalid(s, fmt.Sprintf("spec of '%s'%s must equal the fixed value", name, free))
	}
}

// fixedLevel reports whether a mandatory level is as it must be. What the exempt one lends is free.
func fixedLevel(s, fixed *LevelSpec) bool {
	if fixed.Type == TypeExempt {
		without := *s
		without.Exempt = fixed.Exempt
		return reflect.DeepEqual(without, *fixed)
	}
	return reflect.DeepEqual(*s, *fixed)
}

func checkLimited(s *LevelSpec, at status.Field) {
	if s.Exempt != nil {
		at.Child("exempt").Forbidden("must be nil if the type is Limited")
	}
	l, at := s.Limited, at.Child("limited")
	if l == nil {
		at.Required("must not be empty when type is Limited")
		return
	}
	checkShares(l.NominalConcurrencyShares, l.LendablePercent, at)
	if p := l.BorrowingLimitPercent; p != nil && *p < 0 {
		at.Child("borrowingLimitPercent").Invalid(*p, "if specified, must be a non-negative integer")
	}
	response := at.Child("limitResponse")
	switch q := l.LimitResponse.Queuing; l.LimitResponse.Type {
	case "":
		response.Child("type").Required("")
	case ResponseReject:
		if q != nil {
			response.Child("queuing").Forbidden("must be nil if limited.limitResponse.type is not Limited")
		}
	case ResponseQueue:
		if q == nil {
			response.Child("queuing").Required("must not be empty if limited.limitResponse.type is Limited")
			return
		}
		checkQueuing(q, response.Child("queuing"))
	default:
		response.Child("type").NotSupported(l.LimitResponse.Type, ResponseQueue, ResponseReject)
	}
}

func checkShares(shares, lendable *int32, at status.Field) {
	if shares != nil && *shares < 0 {
		at.Child("nominalConcurrencyShares").Invalid(*shares, "must be a non-negative integer")
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		at.Child("lendablePercent").Invalid(*lendable, "must be between 0 and 100, inclusive")
	}
}

// maxEntropy bounds how many bits of a flow's hash its hand takes, of 64.
const maxEntropy = 60

func checkQueuing(q *Queuing, at status.Field) {
	if q.QueueLengthLimit <= 0 {
		at.Child("queueLengthLimit").Invalid(q.QueueLengthLimit, "must be positive")
	}
	if q.Queues <= 0 {
		at.Child("queues").Invalid(q.Queues, "must be positive")
	} else if q.Queues > 10_000_000 {
		at.Child("queues").Invalid(q.Queues, "must not be greater than 10000000")
	}
	hand := at.Child("handSize")
	switch {
	case q.HandSize <= 0:
		hand.Invalid(q.HandSize, "must be positive")
	case q.HandSize > q.Queues:
		hand.Invalid(q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	case entropy(q.Queues, q.HandSize) > maxEntropy:
		hand.Invalid(q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			q.Queues, q.HandSize, maxEntropy))
	}
}

// entropy returns how many bits it takes to choose a hand, rounded up.
func entropy(deck, hand int32) int {
	bits := 0.0
	for i := range min(hand, 64) { // each card but the last takes a bit at least
		bits += math.Log2(float64(deck - i))
	}
	return int(math.Ceil(bits))
}
