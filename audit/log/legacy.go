package log

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/audit"
)

// legacy is the line of the format of that name. Text of clients is quoted, so that it cannot end
// the line.
func legacy(e *audit.Event) []byte {
	quote := func(s string) string {
		if s == "" {
			return `"<none>"`
		}
		return strconv.Quote(s)
	}
	as, asGroups := "<self>", "<lookup>"
	if e.ImpersonatedUser != nil {
		as = e.ImpersonatedUser.Username
		if len(e.ImpersonatedUser.Groups) > 0 {
			asGroups = quoted(e.ImpersonatedUser.Groups)
		}
	}
	groups := "<none>"
	if len(e.User.Groups) > 0 {
		groups = quoted(e.User.Groups)
	}
	response, namespace := "<deferred>", "<none>"
	if e.ResponseStatus != nil {
		response = strconv.Itoa(int(e.ResponseStatus.Code))
	}
	if e.ObjectRef != nil && e.ObjectRef.Namespace != "" {
		namespace = e.ObjectRef.Namespace
	}
	ip := "<unknown>"
	if len(e.SourceIPs) > 0 {
		ip = e.SourceIPs[0]
	}
	return fmt.Appendf(nil, "%s AUDIT: id=%s stage=%s ip=%s method=%s user=%s groups=%s as=%s asgroups=%s user-agent=%s namespace=%s uri=%s response=%s",
		e.StageTimestamp.Time.UTC().Format("2006-01-02T15:04:05.000000000Z"), quote(e.AuditID), quote(string(e.Stage)), quote(ip), quote(e.Verb),
		quote(e.User.Username), strconv.Quote(groups), quote(as), strconv.Quote(asGroups), quote(e.UserAgent), quote(namespace), quote(e.RequestURI), strconv.Quote(response))
}

func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(s))
	}
	return b.String()
}
