package request

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// MaxPathBytes is the length of the longest path, as sent, that is accepted. Names have at most 253
// bytes; the rest is room for the paths of other handlers.
const MaxPathBytes = 8 << 10

// splitPath returns the decoded segments of a path, and whether it ended with a slash. The segments
// are in room if they fit. No segment is empty.
//
// The escaped form is split before anything is decoded (security vector P3). net/url sets RawPath
// if the plain encoding of Path differs from what was sent; then the escaped form is RawPath.
// Otherwise it is Path, which then holds no encoded slash. URL.EscapedPath is not safe here: if
// RawPath holds a byte that should have been escaped, it encodes Path again, where an encoded slash
// has become a separator.
func splitPath(u *url.URL, room []string) (segments []string, slash bool, err error) {
	path, encoded := u.Path, false
	switch {
	case u.Opaque != "" || u.User != nil:
		return nil, false, status.BadRequest("request target has no plain path")
	case len(u.Path) > MaxPathBytes || len(u.RawPath) > MaxPathBytes:
		return nil, false, status.BadRequest("path is longer than %d bytes", MaxPathBytes)
	case u.RawPath != "":
		// A host that rewrites only Path leaves a stale RawPath behind. The two disagree, so the
		// path is rejected.
		if decoded, err := url.PathUnescape(u.RawPath); err != nil || decoded != u.Path {
			return nil, false, status.BadRequest("path has two different readings")
		}
		path, encoded = u.RawPath, true
	case u.Path == "":
		path = "/" // an absolute-form target without a path means the root
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, false, status.BadRequest("path does not begin with a slash")
	}
	if rest == "" {
		return nil, true, nil
	}
	if rest, slash = strings.CutSuffix(rest, "/"); rest == "" {
		return nil, false, status.NotFound(meta.GroupResource{}, "")
	}
	segments = room
	for segment := range strings.SplitSeq(rest, "/") {
		if encoded {
			if segment, err = url.PathUnescape(segment); err != nil {
				return nil, false, status.BadRequest("path segment %s has a bad escape", quote(segment))
			}
		}
		if segment == "" {
			return nil, false, status.NotFound(meta.GroupResource{}, "")
		}
		if why := checkSegment(segment); why != "" {
			return nil, false, status.BadRequest("path segment %s %s", quote(segment), why)
		}
		segments = append(segments, segment)
	}
	return segments, slash, nil
}

// checkSegment returns what is wrong with a decoded, non-empty segment, or "". A valid segment can
// be part of a storage key and of a line of text.
func checkSegment(s string) string {
	if s == "." || s == ".." {
		return "is not a name"
	}
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		switch {
		case r == '/' || r == '%':
			return "contains an encoded slash or percent sign"
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return "contains a control character"
		}
	}
	return ""
}

func validSegment(s string) bool { return s != "" && checkSegment(s) == "" }

// quote returns a short, printable form of text from a request, for error messages.
func quote(s string) string {
	const most = 64
	if len(s) <= most {
		return fmt.Sprintf("%+q", s)
	}
	return fmt.Sprintf("%+q…", s[:most])
}
