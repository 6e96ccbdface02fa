package webhook

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/words"
	"github.com/kindwright/kindwright/status"
)

// ServiceReference is how an object names a service.
type ServiceReference struct {
	Namespace, Name string
	Path            *string
	Port            *int32 // default 443
}

// ConfigOf returns where a webhook is that an object describes by a URL or a service.
func ConfigOf(address *string, service *ServiceReference, bundle []byte) Config {
	to := Config{CABundle: bundle}
	if address != nil {
		to.URL = *address
	}
	if service != nil {
		to.Service = &Service{Namespace: service.Namespace, Name: service.Name, Port: 443}
		if service.Path != nil {
			to.Service.Path = *service.Path
		}
		if service.Port != nil {
			to.Service.Port = *service.Port
		}
	}
	return to
}

// reviewVersions are the versions of reviews that this server can send.
var reviewVersions = []string{"v1", "v1beta1"}

// CanSend reports whether the server can send a review in one of the versions.
func CanSend(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions, v) })
}

// ValidateVersions reports names of versions that cannot exist. recognized demands one that this server
// can send; missing is said of an empty list.
// Source: CRD-19, WHK-09.
func ValidateVersions(versions []string, recognized bool, missing string, at status.Field) {
	if len(versions) == 0 {
		at.Required(missing)
		return
	}
	seen := make(map[string]bool, len(versions))
	for i, v := range versions {
		if seen[v] {
			at.Index(i).Invalid(v, "duplicate version")
			continue
		}
		seen[v] = true
		for _, problem := range words.LabelProblems(v) {
			at.Index(i).Invalid(v, problem)
		}
	}
	if recognized && !CanSend(versions) {
		at.Invalid(versions, "must include at least one of "+strings.Join(reviewVersions, ", "))
	}
}

// ValidateClient reports a webhook that cannot be reached. It has either a URL or a service.
// Source: CRD-19, WHK-02.
func ValidateClient(address *string, service *ServiceReference, at status.Field) {
	switch {
	case (address == nil) == (service == nil):
		at.Required("exactly one of url or service is required")
	case address != nil:
		validateURL(*address, at.Child("url"))
	default:
		validateService(service, at.Child("service"))
	}
}

func validateURL(text string, at status.Field) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		at.Required("url must be a valid URL: " + err.Error() + form)
		return
	}
	if u.Scheme != "https" {
		at.Invalid(u.Scheme, "'https' is the only allowed URL scheme"+form)
	}
	if u.Host == "" {
		at.Invalid(u.Host, "host must be specified"+form)
	}
	if u.User != nil {
		at.Invalid(u.User.String(), "user information is not permitted in the URL")
	}
	if u.Fragment != "" {
		at.Invalid(u.Fragment, "fragments are not permitted in the URL")
	}
	if u.RawQuery != "" {
		at.Invalid(u.RawQuery, "query parameters are not permitted in the URL")
	}
}

// validateService reports a service that cannot exist. Kubernetes confuses its name with its
// namespace when it reports one that is missing, and so does this.
func validateService(s *ServiceReference, at status.Field) {
	if s.Namespace == "" {
		at.Child("name").Required("")
	}
	if s.Name == "" {
		at.Child("namespace").Required("")
	}
	if s.Port != nil && (*s.Port < 1 || *s.Port > 65535) {
		at.Child("port").Invalid(*s.Port, "port is not valid: must be between 1 and 65535, inclusive")
	}
	if s.Path == nil || *s.Path == "" || *s.Path == "/" {
		return
	}
	path, at := *s.Path, at.Child("path")
	if path == "//" {
		at.Invalid(path, "segment[0] may not be empty")
		return
	}
	if !strings.HasPrefix(path, "/") {
		at.Invalid(path, "must start with a '/'")
	}
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if step == "" {
			at.Invalid(path, fmt.Sprintf("segment[%d] may not be empty", i))
			continue
		}
		for _, problem := range words.SubdomainProblems(step) {
			at.Invalid(path, fmt.Sprintf("segment[%d]: %s", i, problem))
		}
	}
}
