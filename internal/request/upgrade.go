package request

import (
	"net/http"
	"strings"
)

// AsksUpgrade reports whether a request asks for another protocol on its connection (RFC 9110, 7.8).
func AsksUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoAtLeast(1, 1) && len(r.Header["Upgrade"]) > 0 && HasToken(r.Header["Connection"], "upgrade")
}

// HasToken reports whether a header whose value is a list contains token, in any case.
func HasToken(fields []string, token string) bool {
	for _, field := range fields {
		for element := range strings.SplitSeq(field, ",") {
			if strings.EqualFold(strings.Trim(element, " \t"), token) {
				return true
			}
		}
	}
	return false
}
