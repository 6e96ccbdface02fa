package aggregate

import (
	"slices"
	"time"

	"github.com/kindwright/kindwright/meta"
)

// APIService says which server answers for a group version. Its name is version.group, such as
// v1beta1.metrics.k8s.io. It belongs to apiregistration.{domain}/v1.
//
// Source: OPS-08.
type APIService struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   APIServiceSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"Which server answers, and for what."`
	Status APIServiceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status" doc:"Whether it can be asked at present."`
}

// APIServiceSpec says which server answers for a group version, and how far ahead of others the group
// and the version are listed.
type APIServiceSpec struct {
	Service *ServiceReference `json:"service,omitempty" protobuf:"bytes,1,opt,name=service" doc:"The service of the server that answers. Without it, this server answers itself."`
	Group   string            `json:"group,omitempty" protobuf:"bytes,2,opt,name=group" doc:"The API group."`
	Version string            `json:"version,omitempty" protobuf:"bytes,3,opt,name=version" doc:"The version of the group."`

	InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify,omitempty" protobuf:"varint,4,opt,name=insecureSkipTLSVerify" doc:"Trusts every certificate of the server. Use caBundle instead."`
	CABundle              []byte `json:"caBundle,omitempty" protobuf:"bytes,5,opt,name=caBundle" doc:"PEM certificates of the authorities by which the server is trusted. Without any, those of the system count."`

	GroupPriorityMinimum int32 `json:"groupPriorityMinimum" protobuf:"varint,7,opt,name=groupPriorityMinimum" expected:"" doc:"Groups with a higher number are listed first, those with the same by name. The highest number of all versions of a group counts."`
	VersionPriority      int32 `json:"versionPriority" protobuf:"varint,8,opt,name=versionPriority" expected:"" doc:"Versions of a group with a higher number are listed first, those with the same as Kubernetes orders versions."`
}

// ServiceReference names a service. Its addresses are looked up each time that a connection is made.
type ServiceReference struct {
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,1,opt,name=namespace" doc:"The namespace of the service."`
	Name      string `json:"name,omitempty" protobuf:"bytes,2,opt,name=name" doc:"The name of the service."`
	Port      *int32 `json:"port,omitempty" protobuf:"varint,3,opt,name=port" doc:"The port of the service; 443 by default."`
}

// APIServiceStatus says whether the server of an APIService can be asked.
type APIServiceStatus struct {
	Conditions []APIServiceCondition `json:"conditions,omitempty" protobuf:"bytes,1,rep,name=conditions" list:"map,key=type" patchStrategy:"merge" patchMergeKey:"type" doc:"What is known about the server."`
}

// APIServiceCondition is one fact about the server of an APIService.
type APIServiceCondition struct {
	Type               string    `json:"type" protobuf:"bytes,1,opt,name=type" doc:"The fact, such as Available."`
	Status             string    `json:"status" protobuf:"bytes,2,opt,name=status" doc:"True, False or Unknown."`
	LastTransitionTime meta.Time `json:"lastTransitionTime,omitempty" protobuf:"bytes,3,opt,name=lastTransitionTime" doc:"When the status changed last."`
	Reason             string    `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason" doc:"Why, as one word for programs."`
	Message            string    `json:"message,omitempty" protobuf:"bytes,5,opt,name=message" doc:"Why, for people."`
}

// Available is the condition that says whether requests are sent to the server of an APIService.
const Available = "Available"

// AutoManaged is the label of objects that the server makes for its own group versions. Its value is
// "onstart" for the kinds of the program, whose objects are corrected at each start, and "true" for
// kinds that came while the server ran, whose objects also go with them.
const AutoManaged = "kube-aggregator.kubernetes.io/automanaged"

const (
	onStart = "onstart"
	always  = "true"
)

// condition returns a condition, or nil.
func (s *APIService) condition(name string) *APIServiceCondition {
	i := slices.IndexFunc(s.Status.Conditions, func(c APIServiceCondition) bool { return c.Type == name })
	if i < 0 {
		return nil
	}
	return &s.Status.Conditions[i]
}

// setCondition adds or replaces a condition. The time of the transition stays where the status does.
func (s *APIService) setCondition(now time.Time, to APIServiceCondition) {
	to.LastTransitionTime = meta.NewTime(now)
	have := s.condition(to.Type)
	if have == nil {
		s.Status.Conditions = append(slices.Clone(s.Status.Conditions), to)
		return
	}
	if have.Status == to.Status {
		to.LastTransitionTime = have.LastTransitionTime
	}
	*have = to
}

// groupVersion is what the object is about.
func (s *APIService) groupVersion() meta.GroupVersion {
	return meta.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
}

// local is the condition of a group version without a service.
func local() APIServiceCondition {
	return APIServiceCondition{Type: Available, Status: "True", Reason: "Local", Message: "Local APIServices are always available"}
}
