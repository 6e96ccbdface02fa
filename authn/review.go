package authn

import "github.com/kindwright/kindwright/meta"

// SelfSubjectReview is the question who the server takes the caller for, of authentication.{domain}/v1 (REVIEW-05).
// It is POSTed empty and answered, never stored.
type SelfSubjectReview struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Status SelfSubjectReviewStatus `json:"status,omitzero" doc:"Filled in by the server."`
}

// SelfSubjectReviewStatus is the answer.
type SelfSubjectReviewStatus struct {
	UserInfo UserInfo `json:"userInfo,omitzero" doc:"The user that made the request."`
}

// UserInfo is a User as documents show it.
type UserInfo struct {
	Username string              `json:"username,omitempty" doc:"The name that identifies this user uniquely among all active users."`
	UID      string              `json:"uid,omitempty" doc:"Tells apart users that bore the same name at different times."`
	Groups   []string            `json:"groups,omitempty" doc:"The groups the user belongs to."`
	Extra    map[string][]string `json:"extra,omitempty" doc:"Further facts that the authenticator provided."`
}
