package log

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/audit"
)

// legacy is the line of the format of that name, as kube-apiserver writes it: for both stages it begins
// with the time at which the request came. Text of clients is quoted, so that it cannot end the line.
func legacy(e *audit.Event) []byte {
	as, asGroups := "<self>", "<lookup>"
	if e.ImpersonatedUser != nil {
		as = e.ImpersonatedUser.Username
		if len(e.ImpersonatedUser.Groups) > 0 {
			asGroups = quoted(e.ImpersonatedUser.Groups)
		}
	}
	user, groups := "<none>", "<none>"
	if e.User.Username != "" {
		if user = e.User.Username; len(e.User.Groups) > 0 {
			groups = quoted(e.User.Groups)
		}
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
	return fmt.Appendf(nil, "%s AUDIT: id=%q stage=%q ip=%q method=%q user=%q groups=%q as=%q asgroups=%q user-agent=%q namespace=%q uri=%q response=%q",
		e.RequestReceivedTimestamp.Time.UTC().Format(time.RFC3339Nano), e.AuditID, string(e.Stage), ip, e.Verb, user, groups, as, asGroups,
		e.UserAgent, namespace, e.RequestURI, response)
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
