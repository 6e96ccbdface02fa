package patch

import (
	"mime"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/status"
)

// Type is the media type of a patch (PATCH-03).
type Type string

// The media types of patches.
const (
	JSONPatch           Type = "application/json-patch+json"            // PATCH-06
	MergePatch          Type = "application/merge-patch+json"           // PATCH-08
	StrategicMergePatch Type = "application/strategic-merge-patch+json" // PATCH-09
	ApplyPatch          Type = "application/apply-patch+yaml"           // PATCH-05
)

// ParseType reads the Content-Type header of a PATCH request. Parameters have no meaning, but for a character set other
// than UTF-8. A type that is not among those accepted is a 415 that lists them (PATCH-10, PATCH-12).
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
