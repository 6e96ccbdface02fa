package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/storage"
)

// Config says where the store is.
type Config struct {
	// Endpoints are the client URLs of the members, such as "https://10.0.0.1:2379". One is enough;
	// with all of them, the loss of a member goes unnoticed.
	Endpoints []string

	// TLS is for endpoints with https. It holds the CA of etcd and, if etcd asks for one, the
	// certificate of this client.
	TLS *tls.Config

	// User and Password are for an etcd with authentication by password.
	User, Password string

	// Prefix is where the store lies in the cluster; "" is "/kindwright". Two stores can share a
	// cluster if neither prefix is below the other.
	Prefix string

	// Owner names the API that the store belongs to. Open refuses a store that was made with another
	// name. The empty name is a name, too.
	Owner string

	// Restored accepts a cluster that was restored from a backup, or to which the data was moved.
	// Open refuses such a cluster otherwise, because it would give out revisions again that clients
	// know from before. Set it for one start of one server.
	Restored bool

	// MustExist refuses to make a store where there is none: Open returns ErrNoStore. It is for programs
	// that look at a store, where a mistake in the prefix must not make an empty one.
	MustExist bool

	// Timeout limits each call, and Open for each endpoint; 0 is 10 seconds. A context can end a call
	// sooner.
	Timeout time.Duration

	// MaxRequestBytes is the --max-request-bytes of the members; 0 is etcd's default of 1.5 MiB.
	MaxRequestBytes int

	// MaxLogBytes limits the memory for recent changes, from which watches are served that are a
	// little behind; 0 is 32 MiB.
	MaxLogBytes int

	// Dial connects to a member, "host:port", such as through a tunnel; egress.Selector has one for
	// egress.Etcd. Nil connects directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger logr.Logger // hears of outages
}

// ErrNoStore means that there is no store at the prefix, and Config.MustExist forbids to make one.
var ErrNoStore = errors.New("there is no store")

// Limits returns what etcd's default --max-txn-ops of 128 and the configured size of requests leave
// for a commit.
func (c Config) Limits() storage.Limits {
	most := orDefault(c.MaxRequestBytes, defaultMaxRequestBytes) - requestRoom
	return storage.Limits{MaxValueBytes: most, MaxOps: perCommit - ownOps, MaxCommitBytes: most + requestRoom/2}
}

const (
	defaultPrefix          = "/kindwright"
	defaultTimeout         = 10 * time.Second
	defaultMaxRequestBytes = 1536 << 10
	defaultMaxLogBytes     = 32 << 20
)

// minRequestBytes leaves room for an object of some size beside what a request has besides.
const minRequestBytes = 256 << 10

// withDefaults returns the configuration with the defaults filled in, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	c.Timeout = orDefault(c.Timeout, defaultTimeout)
	c.MaxRequestBytes = orDefault(c.MaxRequestBytes, defaultMaxRequestBytes)
	c.MaxLogBytes = orDefault(c.MaxLogBytes, defaultMaxLogBytes)
	return c, c.validate()
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (c Config) validate() error {
	if len(c.Endpoints) == 0 {
		return errors.New("there is no endpoint: give the client URL of a member, such as https://10.0.0.1:2379")
	}
	for _, e := range c.Endpoints {
		if err := c.checkEndpoint(e); err != nil {
			return err
		}
	}
	switch {
	case !strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/") || strings.Contains(c.Prefix, "//") ||
		strings.IndexByte(c.Prefix, 0) >= 0:
		return fmt.Errorf("the prefix %q must begin with a slash, not end with one, and have no empty part: use one like /kindwright", c.Prefix)
	case len(c.Prefix) > 512:
		return fmt.Errorf("the prefix has %d bytes, the limit is 512", len(c.Prefix))
	case (c.User == "") != (c.Password == ""):
		return errors.New("a user needs a password, and a password a user: give both or neither")
	case c.Timeout < 0:
		return fmt.Errorf("the timeout %v must be above 0", c.Timeout)
	case c.MaxRequestBytes < minRequestBytes:
		return fmt.Errorf("requests of at most %d bytes are too small: etcd needs a --max-request-bytes of at least %d", c.MaxRequestBytes, minRequestBytes)
	case c.MaxLogBytes < 0:
		return fmt.Errorf("the log of %d bytes must be above 0", c.MaxLogBytes)
	}
	return nil
}

func (c Config) checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the endpoint %q is not a URL such as https://10.0.0.1:2379", endpoint)
	case u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the endpoint %q has more than a scheme, a host and a port: leave the rest out", u.Redacted())
	case u.Port() == "":
		return fmt.Errorf("the endpoint %q has no port: etcd's is usually 2379", endpoint)
	case u.Scheme == "http" && c.TLS != nil:
		return fmt.Errorf("the endpoint %q is not encrypted, though there are TLS settings: use https, or leave them out", endpoint)
	}
	return nil
}
