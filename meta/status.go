package meta

// Reason is a machine-readable word for why a request failed.
type Reason string

// The reasons that a Status can carry, with the HTTP code that usually accompanies each. Source:
// ERR-23.
const (
	ReasonUnknown               Reason = ""                      // any code; the server gave no reason
	ReasonBadRequest            Reason = "BadRequest"            // 400
	ReasonUnauthorized          Reason = "Unauthorized"          // 401
	ReasonForbidden             Reason = "Forbidden"             // 403
	ReasonNotFound              Reason = "NotFound"              // 404
	ReasonMethodNotAllowed      Reason = "MethodNotAllowed"      // 405
	ReasonNotAcceptable         Reason = "NotAcceptable"         // 406
	ReasonAlreadyExists         Reason = "AlreadyExists"         // 409
	ReasonConflict              Reason = "Conflict"              // 409
	ReasonExpired               Reason = "Expired"               // 410
	ReasonGone                  Reason = "Gone"                  // 410
	ReasonRequestEntityTooLarge Reason = "RequestEntityTooLarge" // 413
	ReasonUnsupportedMediaType  Reason = "UnsupportedMediaType"  // 415
	ReasonInvalid               Reason = "Invalid"               // 422
	ReasonTooManyRequests       Reason = "TooManyRequests"       // 429
	ReasonInternalError         Reason = "InternalError"         // 500
	ReasonServerTimeout         Reason = "ServerTimeout"         // 500
	ReasonStoreReadError        Reason = "StorageReadError"      // 500
	ReasonServiceUnavailable    Reason = "ServiceUnavailable"    // 503
	ReasonTimeout               Reason = "Timeout"               // 504
)

// CauseType is a machine-readable word for one cause of a failure.
type CauseType string

// The types of causes.
const (
	CauseFieldValueNotFound       CauseType = "FieldValueNotFound"       // a reference to something that does not exist
	CauseFieldValueRequired       CauseType = "FieldValueRequired"       // a value is missing
	CauseFieldValueDuplicate      CauseType = "FieldValueDuplicate"      // a value must be unique
	CauseFieldValueInvalid        CauseType = "FieldValueInvalid"        // a value is malformed or out of range
	CauseFieldValueNotSupported   CauseType = "FieldValueNotSupported"   // a value is not in a known set
	CauseFieldValueForbidden      CauseType = "FieldValueForbidden"      // a value must not be set here or now
	CauseFieldValueTooLong        CauseType = "FieldValueTooLong"        // a value has too many bytes
	CauseFieldValueTooMany        CauseType = "FieldValueTooMany"        // a collection has too many items
	CauseFieldValueTooShort       CauseType = "FieldValueTooShort"       // a value has too few bytes
	CauseFieldValueTooFew         CauseType = "FieldValueTooFew"         // a collection has too few items
	CauseFieldValueTypeInvalid    CauseType = "FieldValueTypeInvalid"    // a value has the wrong type
	CauseInternalError            CauseType = "InternalError"            // checking a field failed
	CauseUnexpectedServerResponse CauseType = "UnexpectedServerResponse" // a client could not read a response
	CauseFieldManagerConflict     CauseType = "FieldManagerConflict"     // another manager owns a field
	CauseResourceVersionTooLarge  CauseType = "ResourceVersionTooLarge"  // the requested version is newer than any the server has seen
	CauseNamespaceTerminating     CauseType = "NamespaceTerminating"     // the namespace is being deleted
)

// The values of Status.Status.
const (
	StatusSuccess = "Success"
	StatusFailure = "Failure"
)

// Status is the response document of every failed request and of some successful ones. Its TypeMeta
// is always Status and v1. Metadata is written even when empty. Source: ERR-22.
type Status struct {
	TypeMeta
	ListMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Status   string         `json:"status,omitempty" protobuf:"bytes,2,opt,name=status"`
	Message  string         `json:"message,omitempty" protobuf:"bytes,3,opt,name=message"`
	Reason   Reason         `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason"`
	Details  *StatusDetails `json:"details,omitempty" protobuf:"bytes,5,opt,name=details"`
	Code     int32          `json:"code,omitempty" protobuf:"varint,6,opt,name=code"` // the HTTP status
}

// StatusDetails carries the facts behind a Status. Kind holds the resource name for most errors and
// the Kind for validation errors.
type StatusDetails struct {
	Name              string        `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Group             string        `json:"group,omitempty" protobuf:"bytes,2,opt,name=group"`
	Kind              string        `json:"kind,omitempty" protobuf:"bytes,3,opt,name=kind"`
	UID               UID           `json:"uid,omitempty" protobuf:"bytes,6,opt,name=uid"`
	Causes            []StatusCause `json:"causes,omitempty" protobuf:"bytes,4,rep,name=causes"`
	RetryAfterSeconds int32         `json:"retryAfterSeconds,omitempty" protobuf:"varint,5,opt,name=retryAfterSeconds"`
}

// StatusCause is one of several things that are wrong. Field is a path such as
// "spec.items[0].name".
type StatusCause struct {
	Type    CauseType `json:"reason,omitempty" protobuf:"bytes,1,opt,name=reason"`
	Message string    `json:"message,omitempty" protobuf:"bytes,2,opt,name=message"`
	Field   string    `json:"field,omitempty" protobuf:"bytes,3,opt,name=field"`
}
