package rbac

import "github.com/kindwright/kindwright/meta"

// Role is a set of permissions in its namespace, in rbac.authorization.{domain}/v1. Source: RBAC-01.
type Role struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Rules []PolicyRule `json:"rules" protobuf:"bytes,2,rep,name=rules" list:"atomic" optional:"" nullable:"" doc:"What is allowed. Rules only add to each other."`
}

// ClusterRole is a set of permissions that bindings grant in one namespace or everywhere.
type ClusterRole struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Rules           []PolicyRule     `json:"rules" protobuf:"bytes,2,rep,name=rules" list:"atomic" optional:"" nullable:"" doc:"What is allowed. Rules only add to each other."`
	AggregationRule *AggregationRule `json:"aggregationRule,omitempty" protobuf:"bytes,3,opt,name=aggregationRule" doc:"Where the rules come from. If it is set, the server replaces rules."`
}

// AggregationRule makes a ClusterRole the union of others.
type AggregationRule struct {
	ClusterRoleSelectors []meta.LabelSelector `json:"clusterRoleSelectors,omitempty" protobuf:"bytes,1,rep,name=clusterRoleSelectors" list:"atomic" doc:"A ClusterRole that any of the selectors matches is a part."`
}

// PolicyRule allows each of its verbs on each of its resources or paths.
type PolicyRule struct {
	Verbs           []string `json:"verbs" protobuf:"bytes,1,rep,name=verbs" list:"atomic" optional:"" nullable:"" doc:"The verbs; * means all."`
	APIGroups       []string `json:"apiGroups,omitempty" protobuf:"bytes,2,rep,name=apiGroups" list:"atomic" doc:"The API groups; * means all, the empty name the core group."`
	Resources       []string `json:"resources,omitempty" protobuf:"bytes,3,rep,name=resources" list:"atomic" doc:"The plural names of resources; * means all with their subresources, */foo the subresource foo of all."`
	ResourceNames   []string `json:"resourceNames,omitempty" protobuf:"bytes,4,rep,name=resourceNames" list:"atomic" doc:"The names of the objects; none means all."`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty" protobuf:"bytes,5,rep,name=nonResourceURLs" list:"atomic" doc:"Paths that are not resources; a * at the end means all that begin so. They count only in a ClusterRole that a ClusterRoleBinding grants."`
}

// RoleBinding grants a Role of its namespace, or a ClusterRole, in its namespace.
type RoleBinding struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Subjects []Subject `json:"subjects,omitempty" protobuf:"bytes,2,rep,name=subjects" list:"atomic" doc:"To whom the role is granted."`
	RoleRef  RoleRef   `json:"roleRef" protobuf:"bytes,3,opt,name=roleRef" doc:"The role. It cannot be changed."`
}

// ClusterRoleBinding grants a ClusterRole everywhere.
type ClusterRoleBinding struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Subjects []Subject `json:"subjects,omitempty" protobuf:"bytes,2,rep,name=subjects" list:"atomic" doc:"To whom the role is granted."`
	RoleRef  RoleRef   `json:"roleRef" protobuf:"bytes,3,opt,name=roleRef" doc:"The role. It cannot be changed."`
}

// Subject is a user, a group or a service account. Source: RBAC-03.
type Subject struct {
	Kind      string `json:"kind" protobuf:"bytes,1,opt,name=kind" doc:"User, Group or ServiceAccount."`
	APIGroup  string `json:"apiGroup,omitempty" protobuf:"bytes,2,opt,name=apiGroup" doc:"The group of these kinds for a User and a Group, empty for a ServiceAccount."`
	Name      string `json:"name" protobuf:"bytes,3,opt,name=name" doc:"The name."`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,4,opt,name=namespace" doc:"The namespace of a ServiceAccount."`
}

// RoleRef names the role of a binding.
type RoleRef struct {
	APIGroup string `json:"apiGroup" protobuf:"bytes,1,opt,name=apiGroup" optional:"" doc:"The group of these kinds."`
	Kind     string `json:"kind" protobuf:"bytes,2,opt,name=kind" doc:"Role or ClusterRole."`
	Name     string `json:"name" protobuf:"bytes,3,opt,name=name" doc:"The name."`
}

// The kinds of subjects and roles.
const (
	KindUser           = "User"
	KindGroup          = "Group"
	KindServiceAccount = "ServiceAccount"
	KindRole           = "Role"
	KindClusterRole    = "ClusterRole"
)

// All is the word for everything in verbs, groups, resources and paths.
const All = "*"

// userOf returns the user name that a subject stands for, or "" if it is not a user. A service
// account without a namespace belongs to that of the binding.
func (s Subject) userOf(namespace string) string {
	switch s.Kind {
	case KindUser:
		return s.Name
	case KindServiceAccount:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		if namespace == "" {
			return ""
		}
		return "system:serviceaccount:" + namespace + ":" + s.Name
	}
	return ""
}
