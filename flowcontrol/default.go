package flowcontrol

import "github.com/kindwright/kindwright/meta"

// Default sets what is not set.
func (s *FlowSchemaSpec) Default() {
	if s.MatchingPrecedence == 0 {
		s.MatchingPrecedence = 1000
	}
}

// Default sets what is not set.
func (s *LevelSpec) Default() {
	if e := s.Exempt; e != nil {
		point(&e.NominalConcurrencyShares, 0)
		point(&e.LendablePercent, 0)
	}
	l := s.Limited
	if l == nil {
		return
	}
	point(&l.NominalConcurrencyShares, 30)
	point(&l.LendablePercent, 0)
	if q := l.LimitResponse.Queuing; q != nil {
		set(&q.Queues, 64)
		set(&q.HandSize, 8)
		set(&q.QueueLengthLimit, 50)
	}
}

func point(to **int32, value int32) {
	if *to == nil {
		*to = &value
	}
}

func set(to *int32, value int32) {
	if *to == 0 {
		*to = value
	}
}

// The names of the mandatory objects: both a schema and a level have each of them.
const (
	NameExempt   = "exempt"
	NameCatchAll = "catch-all"
)

// AnnotationAutoUpdate says whether the server keeps the spec of a suggested object: "true" or
// "false". Source: APF-06.
const AnnotationAutoUpdate = "apf.kubernetes.io/autoupdate-spec"

// Objects are schemas and levels.
type Objects struct {
	Schemas []FlowSchema
	Levels  []PriorityLevelConfiguration
}

// Mandatory returns the objects that there must be, with their fixed specs: all that matches nothing
// else has a place, and members of system:masters never wait.
// Source: APF-06.
func Mandatory() Objects {
	masters := subjects(group("system:masters"))
	all := subjects(group("system:unauthenticated"), group("system:authenticated"))
	return Objects{
		Schemas: []FlowSchema{
			schema(NameExempt, NameExempt, 1, "", everything(masters)),
			schema(NameCatchAll, NameCatchAll, 10000, ByUser, everything(all)),
		},
		Levels: []PriorityLevelConfiguration{
			level(NameExempt, LevelSpec{Type: TypeExempt, Exempt: &Exempt{NominalConcurrencyShares: new(int32), LendablePercent: new(int32)}}),
			level(NameCatchAll, limited(5, 0, nil)),
		},
	}
}

// Suggested returns the objects that a server begins with beside the mandatory ones.
// Source: APF-06.
func Suggested(domain string) Objects {
	manager, scheduler := user("system:kube-controller-manager"), user("system:kube-scheduler")
	system := Subject{Kind: SubjectServiceAccount, ServiceAccount: &ServiceAccount{Namespace: "kube-system", Name: "*"}}
	all := subjects(group("system:unauthenticated"), group("system:authenticated"))
	nodes := subjects(group("system:nodes"))
	leases := func(verbs ...string) ResourceRule {
		return ResourceRule{Verbs: verbs, APIGroups: []string{"coordination." + domain}, Resources: []string{"leases"}, Namespaces: []string{"*"}}
	}
	return Objects{
		Schemas: []FlowSchema{
			schema("probes", NameExempt, 2, "", Rule{Subjects: all, NonResourceRules: []NonResourceRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/readyz", "/livez"}},
			}}),
			schema("system-leader-election", "leader-election", 100, ByUser, Rule{
				Subjects: subjects(manager, scheduler, system), ResourceRules: []ResourceRule{leases("get", "create", "update")},
			}),
			schema("system-node-high", "node-high", 400, ByUser, Rule{Subjects: nodes, ResourceRules: []ResourceRule{
				{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, ClusterScope: true, Namespaces: []string{"*"}},
				leases("*"),
			}}),
			schema("system-nodes", "system", 500, ByUser, everything(nodes)),
			schema("kube-controller-manager", "workload-high", 800, ByNamespace, everything(subjects(manager))),
			schema("kube-scheduler", "workload-high", 800, ByNamespace, everything(subjects(scheduler))),
			schema("kube-system-service-accounts", "workload-high", 900, ByNamespace, everything(subjects(system))),
			schema("service-accounts", "workload-low", 9000, ByUser, everything(subjects(group("system:serviceaccounts")))),
			schema("global-default", "global-default", 9900, ByUser, everything(all)),
		},
		Levels: []PriorityLevelConfiguration{
			level("system", limited(30, 33, &Queuing{64, 6, 50})),
			level("node-high", limited(40, 25, &Queuing{64, 6, 50})),
			level("leader-election", limited(10, 0, &Queuing{16, 4, 50})),
			level("workload-high", limited(40, 50, &Queuing{128, 6, 50})),
			level("workload-low", limited(100, 90, &Queuing{128, 6, 50})),
			level("global-default", limited(20, 50, &Queuing{128, 6, 50})),
		},
	}
}

func subjects(all ...Subject) []Subject { return all }

func user(name string) Subject { return Subject{Kind: SubjectUser, User: &Named{name}} }

func group(name string) Subject { return Subject{Kind: SubjectGroup, Group: &Named{name}} }

// everything matches all requests of some users.
func everything(of []Subject) Rule {
	all := []string{"*"}
	return Rule{
		Subjects:         of,
		ResourceRules:    []ResourceRule{{Verbs: all, APIGroups: all, Resources: all, ClusterScope: true, Namespaces: all}},
		NonResourceRules: []NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}
}

func schema(name, level string, precedence int32, by string, rules ...Rule) FlowSchema {
	s := FlowSchema{ObjectMeta: meta.Named("", name), Spec: FlowSchemaSpec{
		PriorityLevelConfiguration: LevelReference{level}, MatchingPrecedence: precedence, Rules: rules,
	}}
	if by != "" {
		s.Spec.DistinguisherMethod = &Distinguisher{by}
	}
	return s
}

func level(name string, spec LevelSpec) PriorityLevelConfiguration {
	return PriorityLevelConfiguration{ObjectMeta: meta.Named("", name), Spec: spec}
}

func limited(shares, lendable int32, q *Queuing) LevelSpec {
	response := LimitResponse{Type: ResponseReject}
	if q != nil {
		response = LimitResponse{Type: ResponseQueue, Queuing: q}
	}
	return LevelSpec{Type: TypeLimited, Limited: &Limited{NominalConcurrencyShares: &shares, LendablePercent: &lendable, LimitResponse: response}}
}
