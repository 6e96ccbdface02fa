package patch

import (
	"mime"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/status"
)

// Type is the media type of a patch.
//
// Source: PATCH-03.
type Type string

// The media types of patches.
const (
	JSONPatch           Type = "application/json-patch+json"            // PATCH-06
	MergePatch          Type = "application/merge-patch+json"           // PATCH-08
	StrategicMergePatch Type = "application/strategic-merge-patch+json" // PATCH-09
	ApplyPatch          Type = "application/apply-patch+yaml"           // PATCH-05
)

// ParseType parses the Content-Type header of a PATCH request. It ignores parameters, except that a
// character set other than UTF-8 is rejected. If the type is not in accepted, it returns a 415
// error that lists the accepted types.
//
// Source: PATCH-10, PATCH-12.
func ParseType(contentType string, accepted ...Type) (Type, error) {
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	charset, has := parameters["charset"]
	if t := Type(mediaType); err == nil && slices.Contains(accepted, t) && (!has || strings.EqualFold(charset, "utf-8")) {
		return t, nil
	}
	names := make([]string, len(accepted))
	for i, t := range accepted {
		names[i] = string(t)
	}
	return "", status.UnsupportedMediaType(names)
}
