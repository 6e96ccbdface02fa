package patch

import (
	"mime"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/status"
)

// ParseType parses the Content-Type header of a PATCH request. It ignores parameters, except that a
// character set other than UTF-8 is rejected. If the type is not in accepted, it returns a 415
// error that lists the accepted types.
//
// Source: PATCH-10, PATCH-12.
func ParseType[T ~string](contentType string, accepted ...T) (T, error) {
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	charset, has := parameters["charset"]
	if t := T(mediaType); err == nil && slices.Contains(accepted, t) && (!has || strings.EqualFold(charset, "utf-8")) {
		return t, nil
	}
	names := make([]string, len(accepted))
	for i, t := range accepted {
		names[i] = string(t)
	}
	return "", status.UnsupportedMediaType(names)
}
