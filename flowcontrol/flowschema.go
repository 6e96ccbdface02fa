package flowcontrol

import "github.com/kindwright/kindwright/meta"

// DefaultGroupDomain is the domain of Kubernetes' own groups.
const DefaultGroupDomain = "k8s.io"

// Group returns the API group of the kinds for a domain.
func Group(domain string) string { return "flowcontrol.apiserver." + domain }

// FlowSchema says which requests belong together, in flowcontrol.apiserver.{domain}/v1.
// Source: APF-04.
type FlowSchema struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   FlowSchemaSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"Which requests are meant, and where they go."`
	Status Status         `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"What the server found."`
}

// FlowSchemaSpec says which requests are meant, and where they go.
type FlowSchemaSpec struct {
	PriorityLevelConfiguration LevelReference `json:"priorityLevelConfiguration" protobuf:"bytes,1,opt,name=priorityLevelConfiguration" doc:"The level that shares its seats among the requests."`
	MatchingPrecedence         int32          `json:"matchingPrecedence" protobuf:"varint,2,opt,name=matchingPrecedence" optional:"" doc:"Of several schemas that match, the one with the lowest number counts. Default 1000."`
	DistinguisherMethod        *Distinguisher `json:"distinguisherMethod,omitempty" protobuf:"bytes,3,opt,name=distinguisherMethod" doc:"How the flows of the schema are told apart. Without one they are one flow."`
	Rules                      []Rule         `json:"rules,omitempty" protobuf:"bytes,4,rep,name=rules" list:"atomic" doc:"The requests. One rule that matches is enough; none matches nothing."`
}

// LevelReference names a PriorityLevelConfiguration.
type LevelReference struct {
	Name string `json:"name" protobuf:"bytes,1,opt,name=name" doc:"The name of the level."`
}

// Distinguisher says how flows are told apart: by [ByUser] or [ByNamespace].
type Distinguisher struct {
	Type string `json:"type" protobuf:"bytes,1,opt,name=type,casttype=FlowDistinguisherMethodType" doc:"ByUser or ByNamespace."`
}

// The ways to tell flows apart.
const (
	ByUser      = "ByUser"
	ByNamespace = "ByNamespace"
)

// Rule matches requests of some users for some resources, or for some paths that are no resource.
type Rule struct {
	Subjects         []Subject         `json:"subjects" protobuf:"bytes,1,rep,name=subjects" list:"atomic" optional:"" doc:"The users. One that is meant is enough."`
	ResourceRules    []ResourceRule    `json:"resourceRules,omitempty" protobuf:"bytes,2,opt,name=resourceRules" list:"atomic" doc:"Requests for resources."`
	NonResourceRules []NonResourceRule `json:"nonResourceRules,omitempty" protobuf:"bytes,3,opt,name=nonResourceRules" list:"atomic" doc:"Requests for other paths."`
}

// Subject is a user, a group or a service account.
type Subject struct {
	Kind           string          `json:"kind" protobuf:"bytes,1,opt,name=kind,casttype=SubjectKind" doc:"User, Group or ServiceAccount; says which of the other fields is set."`
	User           *Named          `json:"user,omitempty" protobuf:"bytes,2,opt,name=user" doc:"A user, or all with the name *."`
	Group          *Named          `json:"group,omitempty" protobuf:"bytes,3,opt,name=group" doc:"A group, or all with the name *."`
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty" protobuf:"bytes,4,opt,name=serviceAccount" doc:"A service account, or all of a namespace with the name *."`
}

// The kinds of subjects.
const (
	SubjectUser           = "User"
	SubjectGroup          = "Group"
	SubjectServiceAccount = "ServiceAccount"
)

// Named is a user or a group.
type Named struct {
	Name string `json:"name" protobuf:"bytes,1,opt,name=name" doc:"The name, or *."`
}

// ServiceAccount is a service account, or all of a namespace.
type ServiceAccount struct {
	Namespace string `json:"namespace" protobuf:"bytes,1,opt,name=namespace" doc:"The namespace."`
	Name      string `json:"name" protobuf:"bytes,2,opt,name=name" doc:"The name, or *."`
}

// ResourceRule matches requests for resources.
type ResourceRule struct {
	Verbs        []string `json:"verbs" protobuf:"bytes,1,rep,name=verbs" list:"set" optional:"" doc:"The verbs, or *."`
	APIGroups    []string `json:"apiGroups" protobuf:"bytes,2,rep,name=apiGroups" list:"set" optional:"" doc:"The groups, or *."`
	Resources    []string `json:"resources" protobuf:"bytes,3,rep,name=resources" list:"set" optional:"" doc:"The resources, such as services and nodes/status, or *."`
	ClusterScope bool     `json:"clusterScope,omitempty" protobuf:"varint,4,opt,name=clusterScope" doc:"Whether requests without a namespace are meant, too."`
	Namespaces   []string `json:"namespaces" protobuf:"bytes,5,rep,name=namespaces" list:"set" optional:"" doc:"The namespaces, or *."`
}

// NonResourceRule matches requests for paths that are no resource.
type NonResourceRule struct {
	Verbs           []string `json:"verbs" protobuf:"bytes,1,rep,name=verbs" list:"set" optional:"" doc:"The verbs, or *."`
	NonResourceURLs []string `json:"nonResourceURLs" protobuf:"bytes,6,rep,name=nonResourceURLs" list:"set" optional:"" doc:"The paths, such as /healthz; /a/* is all below /a/, and * all."`
}

// Status is what the server found.
type Status struct {
	Conditions []Condition `json:"conditions,omitempty" protobuf:"bytes,1,rep,name=conditions" patchStrategy:"merge" patchMergeKey:"type" list:"map,key=type" doc:"What is the case."`
}

// Condition says whether something is the case.
type Condition struct {
	Type               string    `json:"type" protobuf:"bytes,1,opt,name=type" doc:"What it is about."`
	Status             string    `json:"status,omitempty" protobuf:"bytes,2,opt,name=status" doc:"True, False or Unknown."`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitempty" protobuf:"bytes,3,opt,name=lastTransitionTime" doc:"When the status changed."`
	Reason             string    `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason" doc:"Why, in one word."`
	Message            string    `json:"message,omitempty" protobuf:"bytes,5,opt,name=message" doc:"Why."`
}

// ConditionDangling is the condition of a FlowSchema whose level does not exist.
const ConditionDangling = "Dangling"

// PriorityLevelConfiguration is a level: a share in the server's seats, in
// flowcontrol.apiserver.{domain}/v1. Source: APF-05.
type PriorityLevelConfiguration struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   LevelSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"The share, and what happens above it."`
	Status Status    `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"What the server found."`
}

// LevelSpec is the share of a level, and what happens above it.
type LevelSpec struct {
	Type    string   `json:"type" protobuf:"bytes,1,opt,name=type,casttype=PriorityLevelEnablement" doc:"Exempt, for requests that never wait, or Limited."`
	Limited *Limited `json:"limited,omitempty" protobuf:"bytes,2,opt,name=limited" doc:"The limits of a level of type Limited."`
	Exempt  *Exempt  `json:"exempt,omitempty" protobuf:"bytes,3,opt,name=exempt" doc:"What a level of type Exempt lends."`
}

// The types of levels.
const (
	TypeExempt  = "Exempt"
	TypeLimited = "Limited"
)

// Limited are the limits of a level.
type Limited struct {
	NominalConcurrencyShares *int32        `json:"nominalConcurrencyShares" protobuf:"varint,1,opt,name=nominalConcurrencyShares" optional:"" doc:"Its part of the seats is this number by the sum of all levels. Default 30."`
	LimitResponse            LimitResponse `json:"limitResponse,omitempty" protobuf:"bytes,2,opt,name=limitResponse" doc:"What happens to requests that find no seat."`
	LendablePercent          *int32        `json:"lendablePercent,omitempty" protobuf:"varint,3,opt,name=lendablePercent" doc:"How much of its part it lends. Default 0."`
	BorrowingLimitPercent    *int32        `json:"borrowingLimitPercent,omitempty" protobuf:"varint,4,opt,name=borrowingLimitPercent" doc:"How much it borrows at most, of its part. Default: no limit."`
}

// Exempt is what a level of type Exempt has a part in, so that it can lend it.
type Exempt struct {
	NominalConcurrencyShares *int32 `json:"nominalConcurrencyShares,omitempty" protobuf:"varint,1,opt,name=nominalConcurrencyShares" doc:"Its part of the seats. Default 0."`
	LendablePercent          *int32 `json:"lendablePercent,omitempty" protobuf:"varint,2,opt,name=lendablePercent" doc:"How much of it it lends. Default 0."`
}

// LimitResponse says what happens to requests that find no seat.
type LimitResponse struct {
	Type    string   `json:"type" protobuf:"bytes,1,opt,name=type,casttype=LimitResponseType" doc:"Queue or Reject."`
	Queuing *Queuing `json:"queuing,omitempty" protobuf:"bytes,2,opt,name=queuing" doc:"The queues of type Queue."`
}

// The types of limit responses.
const (
	ResponseQueue  = "Queue"
	ResponseReject = "Reject"
)

// Queuing says how requests wait.
type Queuing struct {
	Queues           int32 `json:"queues" protobuf:"varint,1,opt,name=queues" optional:"" doc:"How many queues there are. Default 64."`
	HandSize         int32 `json:"handSize" protobuf:"varint,2,opt,name=handSize" optional:"" doc:"Among how many queues a flow chooses. Default 8."`
	QueueLengthLimit int32 `json:"queueLengthLimit" protobuf:"varint,3,opt,name=queueLengthLimit" optional:"" doc:"How many requests wait in a queue at most. Default 50."`
}
