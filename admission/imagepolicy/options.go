package imagepolicy

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

// Connection is where reviews go, and how the server proves who it is.
type Connection = connection.Connection

// ReadConnection reads a connection file, which has the form of a kubeconfig. Certificates and keys in
// files of their own are read again when they change; failed hears why that is not possible.
func ReadConnection(path string, failed func(error)) (Connection, error) {
	return connection.Read(path, failed)
}

// Options say how a back end is asked.
type Options struct {
	To Connection // required

	// AllowTTL and DenyTTL are how long answers are remembered. Zero means 5 minutes and 30 seconds.
	// A negative one remembers none. They are at most 30 minutes.
	AllowTTL, DenyTTL time.Duration

	// RetryBackoff is the pause before a question is asked for the second time; each later one is
	// half as long again. There are five attempts. Zero means 500 milliseconds, and a negative
	// value no pause. It is at most 5 minutes.
	RetryBackoff time.Duration

	// DefaultAllow admits what the back end does not answer. Without it, that is rejected.
	DefaultAllow bool

	// Images returns what is asked about a write. It is false for a write that is not reviewed. Nil
	// means [Pods].
	// Source: IMG-12.
	Images func(r *admission.Request) (spec ImageReviewSpec, reviewed bool, err error)

	// Rules are the writes that Images is called for. Nil means those of Pods.
	Rules []admission.Rule

	Logger logr.Logger // hears of failures
}

// The bounds of the options, and what applies without them.
const (
	defaultAllowTTL = 5 * time.Minute
	defaultDenyTTL  = 30 * time.Second
	maxTTL          = 30 * time.Minute
	defaultBackoff  = 500 * time.Millisecond
	maxBackoff      = 5 * time.Minute
)

// settle checks the options and fills in what applies without them.
func (o *Options) settle() error {
	var problems []error
	if o.To.URL == "" {
		problems = append(problems, errors.New("the connection has no URL"))
	}
	for _, d := range []struct {
		name          string
		value         *time.Duration
		usual, atMost time.Duration
	}{
		{"AllowTTL", &o.AllowTTL, defaultAllowTTL, maxTTL},
		{"DenyTTL", &o.DenyTTL, defaultDenyTTL, maxTTL},
		{"RetryBackoff", &o.RetryBackoff, defaultBackoff, maxBackoff},
	} {
		switch {
		case *d.value > d.atMost:
			problems = append(problems, fmt.Errorf("%s: must be at most %s", d.name, d.atMost))
		case *d.value < 0:
			*d.value = 0
		case *d.value == 0:
			*d.value = d.usual
		}
	}
	if o.Images == nil && o.Rules != nil {
		problems = append(problems, errors.New("rules without a function that finds images"))
	}
	if o.Images == nil {
		o.Images = Pods
	}
	if o.Rules == nil {
		o.Rules = podRules()
	}
	return errors.Join(problems...)
}

// maxFile is how many bytes a configuration may have.
const maxFile = 1 << 20

// Read reads the configuration of the plugin from a file, as kube-apiserver does. See [Parse].
func Read(path string, failed func(error)) (Options, error) {
	data, err := files.Read(path)
	if err != nil {
		return Options{}, fmt.Errorf("image policy: %w", err)
	}
	o, err := Parse(data, failed)
	if err != nil {
		return Options{}, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// Parse reads the configuration of the plugin, as JSON or YAML:
//
//	imagePolicy:
//	  kubeConfigFile: /etc/images/kubeconfig
//	  allowTTL: 300      # seconds; 1 to 1800, -1 for none
//	  denyTTL: 30        # seconds; 1 to 1800, -1 for none
//	  retryBackoff: 500  # milliseconds; up to 300000, -1 for none
//	  defaultAllow: false
//
// What is left out, or 0, has the default that is shown. The connection file is read at once; failed hears
// later why a certificate or key of it cannot be read again.
// Source: IMG-11.
func Parse(data []byte, failed func(error)) (Options, error) {
	data, err := yaml.ToJSON(data, maxFile)
	if err != nil {
		return Options{}, fmt.Errorf("image policy: %w", err)
	}
	tree, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return Options{}, fmt.Errorf("image policy: %w", err)
	}
	var given struct {
		ImagePolicy struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`
			DenyTTL        int64  `json:"denyTTL"`
			RetryBackoff   int64  `json:"retryBackoff"`
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	f := &status.Fields{}
	config.Fill(f, f.At(), tree, &given)
	p, at := given.ImagePolicy, f.At("imagePolicy")
	o := Options{
		AllowTTL:     duration(at.Child("allowTTL"), p.AllowTTL, time.Second, maxTTL),
		DenyTTL:      duration(at.Child("denyTTL"), p.DenyTTL, time.Second, maxTTL),
		RetryBackoff: duration(at.Child("retryBackoff"), p.RetryBackoff, time.Millisecond, maxBackoff),
		DefaultAllow: p.DefaultAllow,
	}
	if p.KubeConfigFile == "" {
		at.Child("kubeConfigFile").Required("names the connection to the back end")
	} else if o.To, err = ReadConnection(p.KubeConfigFile, failed); err != nil {
		at.Child("kubeConfigFile").Invalid(p.KubeConfigFile, err.Error())
	}
	if err := config.Problems(f.Errors()); err != nil {
		return Options{}, fmt.Errorf("image policy: %w", err)
	}
	return o, nil
}

// duration returns a number of units; 0 is the default, and -1 none.
func duration(at status.Field, n int64, unit, atMost time.Duration) time.Duration {
	if n < -1 || n > int64(atMost/unit) {
		at.Invalid(n, fmt.Sprintf("must be -1, or between 0 and %d", atMost/unit))
		return 0
	}
	return time.Duration(n) * unit
}
