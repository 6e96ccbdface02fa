package client

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/go-logr/logr"
)

// Option configures a Client. If an option is invalid, every call of the Client returns the error.
type Option func(*config) error

// config is the result of the options of a Client.
type config struct {
	base      *url.URL
	userAgent string
	log       logr.Logger
	pageSize  int
	maxAnswer int64
	memory    int
	maxWait   time.Duration
}

// The defaults of the options.
const (
	defaultPageSize  = 500
	defaultMaxAnswer = 256 << 20
	defaultMemory    = 16 << 20
	noMaxWait        = time.Duration(math.MaxInt64)
)

func newConfig(opts []Option) (*config, error) {
	base, err := url.Parse(InProcessURL)
	if err != nil {
		return nil, err
	}
	c := &config{
		base: base, userAgent: "kindwright-client", log: logr.Discard(),
		pageSize: defaultPageSize, maxAnswer: defaultMaxAnswer, memory: defaultMemory, maxWait: noMaxWait,
	}
	var problems []error
	for _, o := range opts {
		if o != nil {
			problems = append(problems, o(c))
		}
	}
	return c, errors.Join(problems...)
}

// At sets the URL of the server, including the path below which it is mounted:
// "https://127.0.0.1:6443", "http://localhost:8080/shop". Default: InProcessURL.
func At(server string) Option {
	return func(c *config) error {
		u, err := url.Parse(server)
		if err != nil {
			return fmt.Errorf("client: At: %w", err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("client: At: %q is not the URL of a server", u.Redacted())
		}
		c.base = u
		return nil
	}
}

// WithUserAgent sets the User-Agent header. Its part before the first slash is the field manager of
// writes that do not name one. Default: kindwright-client.
func WithUserAgent(agent string) Option {
	return func(c *config) error {
		if strings.ContainsFunc(agent, unicode.IsControl) {
			return fmt.Errorf("client: WithUserAgent: %q has a control character", agent)
		}
		c.userAgent = agent
		return nil
	}
}

// WithLogger sets the logger for retries and restarted lists and watches, at level 1. By default
// nothing is logged.
func WithLogger(log logr.Logger) Option {
	return func(c *config) error { c.log = log; return nil }
}

// WithPageSize sets how many objects a list requests per page; 0 requests all at once. Default 500.
func WithPageSize(n int) Option {
	return func(c *config) error {
		if n < 0 {
			return fmt.Errorf("client: WithPageSize: %d is negative", n)
		}
		c.pageSize = n
		return nil
	}
}

// WithMaxAnswer limits the bytes of one response, or of one event of a watch. A longer one is an
// error. Default 256 MiB.
func WithMaxAnswer(bytes int64) Option {
	return func(c *config) error {
		if bytes <= 0 {
			return fmt.Errorf("client: WithMaxAnswer: %d is not positive", bytes)
		}
		c.maxAnswer = bytes
		return nil
	}
}

// WithMaxWait limits how long the client waits before it asks again, also if the server asks for more.
// It is for those who must learn of a change in time, whatever the server says. Default: no limit.
func WithMaxWait(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("client: WithMaxWait: %v is not positive", d)
		}
		c.maxWait = d
		return nil
	}
}

// WithMemory sets how many bytes of objects the client remembers as the server sent them. Update
// needs that text to keep fields that the Go type does not know; it reads an object again if the
// client does not remember it. Default 16 MiB; 0 remembers nothing.
func WithMemory(bytes int) Option {
	return func(c *config) error {
		if bytes < 0 {
			return fmt.Errorf("client: WithMemory: %d is negative", bytes)
		}
		c.memory = bytes
		return nil
	}
}
