package authn

import "github.com/kindwright/kindwright/meta"

// SelfSubjectReview asks who the caller is, in authentication.{domain}/v1. Clients POST it empty;
// the server fills it in and never stores it. Source: REVIEW-05.
type SelfSubjectReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Status SelfSubjectReviewStatus `json:"status,omitempty" protobuf:"bytes,2,opt,name=status" doc:"Filled in by the server."`
}

// SelfSubjectReviewStatus is the result.
type SelfSubjectReviewStatus struct {
	UserInfo UserInfo `json:"userInfo,omitempty" protobuf:"bytes,1,opt,name=userInfo" doc:"The user that made the request."`
}

// UserInfo is the form of a User in documents.
type UserInfo struct {
	Username string              `json:"username,omitempty" protobuf:"bytes,1,opt,name=username" doc:"The name that identifies this user uniquely among all active users."`
	UID      string              `json:"uid,omitempty" protobuf:"bytes,2,opt,name=uid" doc:"Tells apart users that bore the same name at different times."`
	Groups   []string            `json:"groups,omitempty" protobuf:"bytes,3,rep,name=groups" list:"atomic" doc:"The groups the user belongs to."`
	Extra    map[string][]string `json:"extra,omitempty" protobuf:"bytes,4,rep,name=extra" doc:"Further facts that the authenticator provided."`
}

// Info returns the user in the form of documents.
func (u User) Info() UserInfo {
	return UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}
