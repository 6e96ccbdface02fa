package accessflags

import (
	"flag"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn/webhook"
	"github.com/kindwright/kindwright/egress"
)

// TokenWebhook are the values of the flags of the webhook that authenticates tokens.
type TokenWebhook struct {
	connection string
	version    string
	ttl        time.Duration
}

// Add adds the flags to a set.
func (f *TokenWebhook) Add(set *flag.FlagSet) {
	set.StringVar(&f.connection, "authentication-token-webhook-config-file", "", "file in the form of a kubeconfig that says where the webhook is that authenticates tokens")
	set.StringVar(&f.version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReview that the webhook is sent: v1 or v1beta1")
	set.DurationVar(&f.ttl, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long answers of the webhook are remembered; 0 remembers none")
}

// Check reports wrong values.
func (f *TokenWebhook) Check() (problems []error) {
	if f.version != "v1" && f.version != "v1beta1" {
		problems = append(problems, fmt.Errorf("--authentication-token-webhook-version %q: must be v1 or v1beta1", f.version))
	}
	if f.ttl < 0 {
		problems = append(problems, fmt.Errorf("--authentication-token-webhook-cache-ttl %v: must not be negative", f.ttl))
	}
	return problems
}

// Given reports whether there is a webhook.
func (f *TokenWebhook) Given() bool { return f.connection != "" }

// Open makes the authenticator, or nil if there is no webhook. through says how the webhook is reached, nil:
// directly; audiences are those of the server.
func (f *TokenWebhook) Open(log logr.Logger, through *egress.Selector, audiences ...string) (*webhook.Webhook, error) {
	if !f.Given() {
		return nil, nil //nolint:nilnil // there is none
	}
	const name = "--authentication-token-webhook-config-file"
	to, err := webhook.ReadConnection(f.connection, func(err error) {
		log.Error(err, "a changed file cannot be read; its last good state counts", "flag", name)
	})
	if err == nil {
		to, err = to.Through(through.Dialer(egress.ControlPlane))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return webhook.New(to, webhook.Options{Version: f.version, CacheTTL: f.ttl, Audiences: audiences, Logger: log})
}
