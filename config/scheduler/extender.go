package scheduler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Extender is another program that has a say in where pods go. Source: SCHED-11 to SCHED-20.
type Extender struct {
	// URLPrefix is where the extender is.
	URLPrefix string `json:"urlPrefix"`

	// The verbs are appended to the prefix. The extender does not do what it has no verb for. One extender
	// at most binds pods.
	FilterVerb     string `json:"filterVerb,omitempty"`
	PreemptVerb    string `json:"preemptVerb,omitempty"`
	PrioritizeVerb string `json:"prioritizeVerb,omitempty"`
	BindVerb       string `json:"bindVerb,omitempty"`

	// Weight multiplies the scores of PrioritizeVerb. It is positive.
	Weight int64 `json:"weight,omitempty"`

	// EnableHTTPS says that the extender is asked over TLS, as TLSConfig says.
	EnableHTTPS bool       `json:"enableHTTPS,omitempty"`
	TLSConfig   *TLSConfig `json:"tlsConfig,omitempty"`

	// HTTPTimeout limits each call. A pod is not scheduled if the extender does not filter in time; an
	// extender that does not prioritize in time has no say. Default: 5 s.
	HTTPTimeout meta.Duration `json:"httpTimeout,omitempty"`

	// NodeCacheCapable says that the extender knows the nodes, so it is sent their names only.
	NodeCacheCapable bool `json:"nodeCacheCapable,omitempty"`

	// ManagedResources are the resources for whose pods the extender is asked. Empty: it is asked for all
	// pods.
	ManagedResources []ManagedResource `json:"managedResources,omitempty"`

	// Ignorable has pods scheduled without the extender while it cannot be reached.
	Ignorable bool `json:"ignorable,omitempty"`
}

// ManagedResource is a resource that an extender manages.
type ManagedResource struct {
	Name string `json:"name"`

	// IgnoredByScheduler says that only the extender looks whether there is enough of it.
	IgnoredByScheduler bool `json:"ignoredByScheduler,omitempty"`
}

// TLSConfig says how an extender is reached over TLS. Data counts before a file. Source: SCHED-16.
type TLSConfig struct {
	// Insecure trusts any server. Nothing else is said about whom to trust then.
	Insecure bool `json:"insecure,omitempty"`

	// ServerName is the name in the certificate of the server. Empty: the host of the address.
	ServerName string `json:"serverName,omitempty"`

	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	CAFile   string `json:"caFile,omitempty"`

	CertData []byte `json:"certData,omitempty"`
	KeyData  []byte `json:"keyData,omitempty" config:"secret"`
	CAData   []byte `json:"caData,omitempty"`
}

const defaultTimeout = 5 * time.Second

func (e *Extender) defaults() {
	if e.HTTPTimeout.Duration == 0 {
		e.HTTPTimeout.Duration = defaultTimeout
	}
}

// URL returns the address for one of the verbs, or "" if the verb is empty: the extender does not do that.
// Source: SCHED-12.
func (e Extender) URL(verb string) string {
	if verb == "" {
		return ""
	}
	return strings.TrimRight(e.URLPrefix, "/") + "/" + verb
}

// Manages reports whether an extender is asked about a pod that asks for these resources.
func (e Extender) Manages(resources ...string) bool {
	if len(e.ManagedResources) == 0 {
		return true
	}
	return slices.ContainsFunc(e.ManagedResources, func(m ManagedResource) bool { return slices.Contains(resources, m.Name) })
}

// Config reads the files and returns what they and the data say. Without an authority the system's are
// trusted; Kubernetes trusts anybody then.
func (c TLSConfig) Config() (*tls.Config, error) {
	certificate, err := data(c.CertData, c.CertFile)
	if err != nil {
		return nil, fmt.Errorf("certFile: %w", err)
	}
	key, err := data(c.KeyData, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	authority, err := data(c.CAData, c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.Insecure} //nolint:gosec // the document says so
	if c.Insecure && authority != nil {
		return nil, errors.New("insecure: specifying a root certificates file with the insecure flag is not allowed")
	}
	if (certificate == nil) != (key == nil) {
		return nil, errors.New("certData and keyData, or certFile and keyFile, must be specified together")
	}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{pair}
	}
	if authority != nil {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(authority) {
			return nil, errors.New("caData or caFile has no certificate")
		}
	}
	return out, nil
}

// data returns the data, or else the content of the file. It is nil if there is neither.
func data(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	return os.ReadFile(file)
}

func checkExtenders(at status.Field, extenders []Extender) {
	binders, seen := 0, map[string]bool{}
	for i, e := range extenders {
		one := at.Index(i)
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			one.Child("weight").Invalid(e.Weight, "must have a positive weight applied to it")
		}
		if e.BindVerb != "" {
			binders++
		}
		if e.HTTPTimeout.Duration < 0 {
			one.Child("httpTimeout").Invalid(e.HTTPTimeout, "must not be negative")
		}
		for j, m := range e.ManagedResources {
			name := one.Child("managedResources").Index(j).Child("name")
			checkExtendedResource(name, m.Name)
			if seen[m.Name] {
				name.Invalid(m.Name, "duplicate extender managed resource name")
			}
			seen[m.Name] = true
		}
	}
	if binders > 1 {
		at.Invalid(fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind")
	}
}

// checkExtendedResource judges the name of a resource that is none of Kubernetes' own, such as
// example.com/gpu.
func checkExtendedResource(at status.Field, name string) {
	if problem := meta.CheckLabelKey(name); problem != "" {
		at.Invalid(name, problem)
		return
	}
	native := !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
	if native || strings.HasPrefix(name, quotaPrefix) || meta.CheckLabelKey(quotaPrefix+name) != "" {
		at.Invalid(name, "is an invalid extended resource name")
	}
}

// quotaPrefix is before the name of a resource in a quota, where the name must be good as well.
const quotaPrefix = "requests."
