package config

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// EncryptionConfiguration is the document that says how objects are encrypted in the store.
// Source: ENC-01.
type EncryptionConfiguration struct {
	// Resources are asked in order. A resource that an earlier entry has by a wildcard cannot occur
	// again. If several entries name it, the providers of the later ones only read.
	Resources []ResourceEncryption `json:"resources"`
}

// ResourceEncryption says how the objects of some resources are encrypted.
type ResourceEncryption struct {
	// Resources are names such as secrets, widgets.example.dev, *. for the core group,
	// *.example.dev for a group, and *.* for everything.
	Resources []string `json:"resources"`

	// Providers are tried in order when an object is read. The first one writes.
	Providers []EncryptionProvider `json:"providers"`
}

// EncryptionProvider has exactly one field.
// Source: ENC-02.
type EncryptionProvider struct {
	AESGCM    *EncryptionKeys `json:"aesgcm,omitempty"`
	AESCBC    *EncryptionKeys `json:"aescbc,omitempty"`
	Secretbox *EncryptionKeys `json:"secretbox,omitempty"`
	Identity  *struct{}       `json:"identity,omitempty"`
	KMS       *EncryptionKMS  `json:"kms,omitempty"`
}

// EncryptionKeys are keys. The first one writes.
type EncryptionKeys struct {
	Keys []EncryptionKey `json:"keys"`
}

// EncryptionKey is a key with a name, which values carry. Its text form does not show the secret.
type EncryptionKey struct {
	Name   string `json:"name"`
	Secret string `json:"secret" config:"secret"` // base64: 16, 24 or 32 bytes for AES, 32 for secretbox
}

// String returns the name.
func (k EncryptionKey) String() string { return fmt.Sprintf("key %q", k.Name) }

// GoString returns the name.
func (k EncryptionKey) GoString() string { return k.String() }

// EncryptionKMS is a plugin that holds a key.
// Source: ENC-04.
type EncryptionKMS struct {
	APIVersion string         `json:"apiVersion"` // v2
	Name       string         `json:"name"`       // unique, without a colon; values have it
	Endpoint   string         `json:"endpoint"`   // unix:///path/of/socket
	Timeout    *meta.Duration `json:"timeout,omitempty"`
	CacheSize  *int32         `json:"cachesize,omitempty"` // belongs to v1
}

// defaultKMSTimeout is how long a plugin may take for an answer.
const defaultKMSTimeout = 3 * time.Second

var encryptionKind = documents.Kind{
	Name: "EncryptionConfiguration", Group: "apiserver.config.k8s.io", AnyDomain: "apiserver.config", Versions: []string{"v1"},
}

// ParseEncryption reads the document, sets its defaults and validates it. Errors name the field and
// never show a secret.
func ParseEncryption(document []byte) (EncryptionConfiguration, error) {
	c, err := documents.Parse[EncryptionConfiguration](document, encryptionKind)
	if err != nil {
		return c, err
	}
	for _, r := range c.Resources {
		for _, p := range r.Providers {
			if p.KMS != nil && p.KMS.Timeout == nil {
				timeout := meta.NewDuration(defaultKMSTimeout)
				p.KMS.Timeout = &timeout
			}
		}
	}
	return c, c.Validate()
}

// Validate reports everything that is wrong with a configuration, with the path of each field.
func (c EncryptionConfiguration) Validate() error {
	var f status.Fields
	if len(c.Resources) == 0 {
		f.At("resources").Required("at least one resources is required")
	}
	plugins, earlier := map[string]bool{}, map[string]bool{}
	for i, r := range c.Resources {
		at := f.At("resources").Index(i)
		r.checkResources(at.Child("resources"))
		for j, name := range r.Resources {
			_, group, _ := strings.Cut(name, ".")
			for _, wide := range []string{"*." + group, "*.*"} {
				if earlier[wide] {
					at.Child("resources").Index(j).Invalid(name, fmt.Sprintf("it is masked by earlier rule %q: move it before that entry", wide))
					break
				}
			}
		}
		for _, name := range r.Resources {
			earlier[name] = true
		}
		if len(r.Providers) == 0 {
			at.Child("providers").Required("at least one providers is required")
		}
		for j, p := range r.Providers {
			p.check(at.Child("providers").Index(j), plugins)
		}
	}
	return documents.Problems(f.Errors())
}

// unencrypted are what Kubernetes keeps without an API.
var unencrypted = []string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}

func (r ResourceEncryption) checkResources(at status.Field) {
	if len(r.Resources) == 0 {
		at.Required("at least one resources is required")
	}
	for j, name := range r.Resources {
		resource, group, dotted := strings.Cut(name, ".")
		at := at.Index(j)
		switch {
		case strings.ToLower(name) != name:
			at.Invalid(name, "resource name should not contain capital letters")
		case resource == "" || name == "*" && !dotted:
			at.Invalid(name, "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
		case slices.Contains(unencrypted, name):
			at.Invalid(name, "resources which do not have REST API/s cannot be encrypted")
		case group == "events.k8s.io":
			at.Invalid(name, "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file")
		case group == "extensions":
			at.Invalid(name, "'extensions' group has been removed and cannot be used for encryption")
		case group == "*" && resource != "*":
			at.Invalid(name, "encrypting the same resource across groups is not supported")
		}
	}
	if duplicate, overlap := r.clashes(); duplicate {
		at.Invalid(r.Resources, "the same resource cannot be specified multiple times")
	} else if overlap {
		at.Invalid(r.Resources, "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked")
	}
}

// clashes looks for resources of one entry that are the same, or of which one includes the other.
func (r ResourceEncryption) clashes() (duplicate, overlap bool) {
	for i, a := range r.Resources {
		for _, b := range r.Resources[:i] {
			resourceA, groupA, _ := strings.Cut(a, ".")
			resourceB, groupB, _ := strings.Cut(b, ".")
			switch {
			case resourceA == resourceB && groupA == groupB:
				duplicate = true
			case a == "*.*" || b == "*.*" || groupA == groupB && (resourceA == "*" || resourceB == "*"):
				overlap = true
			}
		}
	}
	return duplicate, overlap
}

func (p EncryptionProvider) check(at status.Field, plugins map[string]bool) {
	n := 0
	for _, has := range []bool{p.AESGCM != nil, p.AESCBC != nil, p.Secretbox != nil, p.Identity != nil, p.KMS != nil} {
		if has {
			n++
		}
	}
	switch {
	case n == 0:
		at.Invalid(status.Omitted{}, "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity")
	case n > 1:
		at.Invalid(status.Omitted{}, "more than one provider specified in a single element, should split into different list elements")
	}
	p.AESGCM.check(at.Child("aesgcm").Child("keys"), 16, 24, 32)
	p.AESCBC.check(at.Child("aescbc").Child("keys"), 16, 24, 32)
	p.Secretbox.check(at.Child("secretbox").Child("keys"), 32)
	if p.KMS != nil {
		p.KMS.check(at.Child("kms"), plugins)
	}
}

func (k *EncryptionKeys) check(at status.Field, sizes ...int) {
	if k == nil {
		return
	}
	if len(k.Keys) == 0 {
		at.Required("at least one keys is required")
	}
	for i, key := range k.Keys {
		at := at.Index(i)
		if key.Name == "" {
			at.Child("name").Required("name is a mandatory field for a key")
		}
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		switch {
		case key.Secret == "":
			at.Child("secret").Required("secret is a mandatory field for a key")
		case err != nil:
			at.Child("secret").Invalid("REDACTED", "secrets must be base64 encoded")
		case !slices.Contains(sizes, len(secret)):
			at.Child("secret").Invalid("REDACTED", fmt.Sprintf("secret is not of the expected length, got %d, expected one of %v", len(secret), sizes))
		}
	}
}

func (k *EncryptionKMS) check(at status.Field, seen map[string]bool) {
	switch {
	case k.Name == "":
		at.Child("name").Required("name is a mandatory field for a provider")
	case strings.Contains(k.Name, ":"):
		at.Child("name").Invalid(k.Name, fmt.Sprintf("invalid KMS provider name %s, must not contain ':'", k.Name))
	case seen[k.Name]:
		at.Child("name").Invalid(k.Name, fmt.Sprintf("duplicate KMS provider name %s, names must be unique", k.Name))
	}
	seen[k.Name] = true
	if k.Timeout != nil && k.Timeout.Duration <= 0 {
		at.Child("timeout").Invalid(k.Timeout.String(), "timeout should be a positive value")
	}
	u, err := url.Parse(k.Endpoint)
	switch {
	case k.Endpoint == "":
		at.Child("endpoint").Invalid("", "endpoint is a mandatory field for a kms")
	case err != nil:
		at.Child("endpoint").Invalid(k.Endpoint, fmt.Sprintf("invalid endpoint for kms provider, error: %v", err))
	case u.Scheme != "unix":
		at.Child("endpoint").Invalid(k.Endpoint, fmt.Sprintf("unsupported scheme %q for KMS provider, only unix is supported", u.Scheme))
	}
	switch k.APIVersion {
	case "v2":
	case "", "v1":
		at.Child("apiVersion").Invalid(k.APIVersion, "version 1 of KMS, the default, is not supported: use a plugin of version 2 and set apiVersion: v2")
	default:
		at.Child("apiVersion").Invalid(k.APIVersion, "unsupported version of KMS: set apiVersion: v2")
	}
	if k.CacheSize != nil {
		at.Child("cachesize").Invalid(*k.CacheSize, "cachesize is not supported in v2")
	}
}
