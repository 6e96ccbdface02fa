package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// AuthorizationRules says what a program accepts in an AuthorizationConfiguration.
type AuthorizationRules struct {
	// Types are the types beside Webhook.
	Types []string

	// TypeNames requires the name of an authorizer that is no webhook to be its type in lower case,
	// as kube-apiserver does. A webhook without match conditions then needs no
	// matchConditionSubjectAccessReviewVersion either.
	TypeNames bool

	// LabelNames rejects names with dots. Source: READ-07.
	LabelNames bool
}

// The bounds of a webhook.
const (
	maxTimeout         = 30 * time.Second
	maxMatchConditions = 64
)

// Validate reports everything that is wrong with a configuration, with the path of each field. It
// looks at the files that the configuration names.
func (c AuthorizationConfiguration) Validate(rules AuthorizationRules) error {
	var f status.Fields
	c.check(&f, rules)
	return documents.Problems(f.Errors())
}

func (c AuthorizationConfiguration) check(f *status.Fields, rules AuthorizationRules) {
	if len(c.Authorizers) == 0 {
		f.At("authorizers").Required("at least one authorization mode must be defined")
	}
	known := append(slices.Clone(rules.Types), TypeWebhook)
	slices.Sort(known)
	types, names := map[string]bool{}, map[string]bool{}
	for i, a := range c.Authorizers {
		at := f.At("authorizers").Index(i)
		switch {
		case a.Type == "":
			at.Child("type").Required("")
			continue
		case !slices.Contains(known, a.Type):
			at.Child("type").NotSupported(a.Type, known...)
			continue
		case types[a.Type] && a.Type != TypeWebhook:
			at.Child("type").Duplicate(a.Type)
			continue
		}
		types[a.Type] = true
		a.checkName(at.Child("name"), names, rules)
		switch {
		case a.Type == TypeWebhook && a.Webhook == nil:
			at.Child("webhook").Required("required when type=Webhook")
		case a.Type == TypeWebhook:
			a.Webhook.check(at.Child("webhook"), rules)
		case a.Webhook != nil:
			at.Child("webhook").Invalid("non-null", "may only be specified when type=Webhook")
		}
	}
}

func (a AuthorizerConfiguration) checkName(at status.Field, seen map[string]bool, rules AuthorizationRules) {
	wrong := meta.CheckDNSSubdomain(a.Name)
	if wrong == "" && rules.LabelNames {
		wrong = meta.CheckDNSLabel(a.Name)
	}
	switch {
	case a.Name == "":
		at.Required("")
	case seen[a.Name]:
		at.Duplicate(a.Name)
	case wrong != "":
		at.Invalid(a.Name, "authorizer name is invalid: "+wrong)
	case rules.TypeNames && a.Type != TypeWebhook && a.Name != strings.ToLower(a.Type):
		at.Invalid(a.Name, fmt.Sprintf("expected name %s for authorizer %s instead of %s", strings.ToLower(a.Type), a.Type, a.Name))
	}
	seen[a.Name] = true
}

func (w *WebhookConfiguration) check(at status.Field, rules AuthorizationRules) {
	switch timeout := w.Timeout.Duration; {
	case timeout == 0:
		at.Child("timeout").Required("")
	case timeout < 0 || timeout > maxTimeout:
		at.Child("timeout").Invalid(timeout.String(), "must be > 0s and <= 30s")
	}
	checkTTL(at.Child("authorizedTTL"), w.AuthorizedTTL.Duration)
	checkTTL(at.Child("unauthorizedTTL"), w.UnauthorizedTTL.Duration)
	oneOf(at.Child("subjectAccessReviewVersion"), w.SubjectAccessReviewVersion, "v1", "v1beta1")
	if v := w.MatchConditionSubjectAccessReviewVersion; v != "" || len(w.MatchConditions) > 0 || !rules.TypeNames {
		if at := at.Child("matchConditionSubjectAccessReviewVersion"); v == "" {
			at.Required("required if match conditions are specified")
		} else {
			oneOf(at, v, "v1")
		}
	}
	oneOf(at.Child("failurePolicy"), w.FailurePolicy, "NoOpinion", "Deny")
	w.ConnectionInfo.check(at.Child("connectionInfo"))
	checkConditions(at.Child("matchConditions"), w.MatchConditions)
}

func checkTTL(at status.Field, ttl time.Duration) {
	switch {
	case ttl == 0:
		at.Required("")
	case ttl < 0:
		at.Invalid(ttl.String(), "must be > 0s")
	}
}

func oneOf(at status.Field, value string, values ...string) {
	switch {
	case value == "":
		at.Required("")
	case !slices.Contains(values, value):
		at.NotSupported(value, values...)
	}
}

func (c *WebhookConnectionInfo) check(at status.Field) {
	oneOf(at.Child("type"), c.Type, ConnectionInClusterConfig, ConnectionKubeConfigFile)
	if c.ConnectionFile != nil {
		at.Child("connectionFile").Forbidden("may not be specified together with kubeConfigFile, which is the same field")
	}
	path := ""
	if c.KubeConfigFile != nil {
		path = *c.KubeConfigFile
	}
	at = at.Child("kubeConfigFile")
	switch {
	case c.Type == ConnectionInClusterConfig && c.KubeConfigFile != nil:
		at.Invalid(path, "can only be set when type=KubeConfigFile")
	case c.Type != ConnectionKubeConfigFile:
	case path == "":
		at.Required("")
	case !filepath.IsAbs(path):
		at.Invalid(path, "must be an absolute path")
	default:
		if info, err := os.Stat(path); err != nil {
			at.Invalid(path, fmt.Sprintf("error loading file: %v", err))
		} else if !info.Mode().IsRegular() {
			at.Invalid(path, "must be a regular file")
		}
	}
}

func checkConditions(at status.Field, conditions []WebhookMatchCondition) {
	if len(conditions) > maxMatchConditions {
		at.TooMany(len(conditions), maxMatchConditions)
		return
	}
	seen := map[string]bool{}
	var compiler conditionCompiler
	for i, c := range conditions {
		at := at.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(c.Expression) == "":
			at.Required("")
			continue
		case seen[c.Expression]:
			at.Duplicate(c.Expression)
			continue
		}
		seen[c.Expression] = true
		if _, err := compiler.compile(c.Expression); err != nil {
			at.Invalid(c.Expression, err.Error())
		}
	}
}
