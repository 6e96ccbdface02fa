package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/admission"
	policies "github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/pause"
	snapshot "github.com/kindwright/kindwright/metrics"
	"github.com/kindwright/kindwright/registry"
)

const (
	// staticSuffix ends the names of policies that come from files.
	staticSuffix = ".static.k8s.io"
	// maxManifests bounds the files of a directory of manifests, in bytes.
	maxManifests = 16 << 20
	// followEvery is how often the directories are read. Files that differ from those in force are taken
	// when they have stayed the same for so long.
	followEvery = 500 * time.Millisecond
)

// staticPolicies are the policies and webhooks of directories.
type staticPolicies struct {
	folders []*manifestFolder
	server  string // hash of the server's identity
	log     logr.Logger
}

func (o *options) staticPolicies(log logr.Logger) registry.Definition {
	host := o.host()
	if host != "" {
		host = digest([]byte(host))
	}
	return &staticPolicies{folders: o.manifests, server: host, log: log}
}

// Define implements registry.Definition. It reads the manifests; if they are bad, the server does not start.
func (s *staticPolicies) Define(env registry.Env) (b registry.Bundle, err error) {
	for _, f := range s.folders {
		f.rules = env.Expressions
		if !f.asksWebhooks() {
			f.statics = policies.NewStatics(policies.Options{GroupDomain: env.GroupDomain, Prices: env.Expressions.Prices})
			b.Plugins = append(b.Plugins, f.admit())
		}
		content, err := f.read()
		if err == nil {
			err = f.load(content)
		}
		if err != nil {
			return b, fmt.Errorf("%s: %s: %w", f.plugin, f.dir, err)
		}
		b.Hooks = append(b.Hooks, registry.Hook{
			Name: "static-" + strings.ToLower(f.plugin),
			Run:  func(ctx context.Context, _ registry.Objects) { f.follow(ctx, s.log.WithValues("directory", f.dir)) },
		})
	}
	return b, nil
}

// CollectMetrics registers what is counted, under the names of Kubernetes.
func (s *staticPolicies) CollectMetrics(r *metrics.Registry) {
	const prefix = "apiserver_manifest_admission_config_controller_"
	r.Collect([]metrics.Desc{
		{
			Name: prefix + "automatic_reloads_total", Help: "Reloads of manifests, by outcome.",
			Type: snapshot.Counter, Labels: []string{"apiserver_id_hash", "plugin", "status"},
		},
		{
			Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "When manifests were reloaded last, by outcome.",
			Type: snapshot.Gauge, Labels: []string{"apiserver_id_hash", "plugin", "status"},
		},
		{
			Name: prefix + "last_config_info", Help: "The hash of the manifests in effect.",
			Type: snapshot.Gauge, Labels: []string{"apiserver_id_hash", "hash", "plugin"},
		},
	}, func(b *metrics.Batch) {
		for _, f := range s.folders {
			f.collect(b, s.server)
		}
	})
}

// manifestFolder is a directory of manifests, of policies or of webhooks.
type manifestFolder struct {
	plugin, dir string
	rules       cel.RuleOptions
	statics     *policies.Statics // of policies
	webhooks    *webhook.Statics  // of webhooks; the kinds bring the plugins that ask them

	mu       sync.Mutex
	hash     string // of the manifests in force
	reloads  [2]int // that succeeded and failed
	reloaded [2]time.Time
}

// asksWebhooks reports whether the manifests are those of webhooks.
func (f *manifestFolder) asksWebhooks() bool { return f.webhooks != nil }

func (f *manifestFolder) admit() admission.Plugin {
	if f.plugin == policies.MutatingName {
		return f.statics.Mutating()
	}
	return f.statics.Validating()
}

// content is what the files of a directory hold at a time.
type content struct {
	manifests policies.Manifests
	webhooks  webhook.Manifests
	bad       error // why the files hold no manifests
	hash      string
}

// read reads the files of the directory itself, in the order of their names.
func (f *manifestFolder) read() (out content, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return out, err
	}
	size, sum := 0, sha256.New()
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		name := filepath.Join(f.dir, e.Name())
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return out, err
			}
			continue
		}
		data, err := files.Read(name)
		if err != nil {
			return out, err
		}
		if size += len(data); size > maxManifests {
			return out, fmt.Errorf("the files are larger than %d bytes together", maxManifests)
		}
		switch {
		case out.bad != nil:
		case f.asksWebhooks():
			out.bad = out.webhooks.Add(e.Name(), data)
		default:
			out.bad = out.manifests.Add(e.Name(), data)
		}
		_, _ = fmt.Fprintf(sum, "%q %d\n%s", e.Name(), len(data), data) // a hash takes everything
	}
	out.hash = fmt.Sprintf("sha256:%x", sum.Sum(nil))
	return out, nil
}

// load puts manifests in force, unless something is wrong with them.
func (f *manifestFolder) load(c content) error {
	err := c.bad
	if err == nil {
		err = f.checkNames(&c)
	}
	switch {
	case err != nil:
	case !f.asksWebhooks():
		err = f.statics.Replace(c.manifests)
	case f.plugin == webhook.MutatingName:
		err = f.webhooks.ReplaceMutating(c.webhooks.Mutating, f.rules)
	default:
		err = f.webhooks.ReplaceValidating(c.webhooks.Validating, f.rules)
	}
	f.count(c.hash, err)
	return err
}

// count notes that manifests with a hash are in force, or why they are not.
func (f *manifestFolder) count(hash string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	outcome := 0
	if err != nil {
		outcome = 1
	} else {
		f.hash = hash
	}
	f.reloads[outcome]++
	f.reloaded[outcome] = time.Now()
}

// checkNames rejects objects that are not for this plugin, and names that the API may have, too.
func (f *manifestFolder) checkNames(c *content) error {
	m := &c.manifests
	var problems []error
	check := func(of, kind, name string) {
		switch {
		case of != f.plugin:
			problems = append(problems, fmt.Errorf("%s %q: not for the plugin %s", kind, name, f.plugin))
		case !strings.HasSuffix(name, staticSuffix):
			problems = append(problems, fmt.Errorf("%s %q: the name must end with %q", kind, name, staticSuffix))
		}
	}
	for _, p := range m.Policies {
		check(policies.Name, policies.Name, p.Name)
	}
	for _, b := range m.Bindings {
		check(policies.Name, policies.Name+"Binding", b.Name)
	}
	for _, p := range m.Mutating {
		check(policies.MutatingName, policies.MutatingName, p.Name)
	}
	for _, b := range m.MutatingBindings {
		check(policies.MutatingName, policies.MutatingName+"Binding", b.Name)
	}
	for _, w := range c.webhooks.Mutating {
		check(webhook.MutatingName, "MutatingWebhookConfiguration", w.Name)
	}
	for _, w := range c.webhooks.Validating {
		check(webhook.ValidatingName, "ValidatingWebhookConfiguration", w.Name)
	}
	return errors.Join(problems...)
}

// follow reads the directory again and again until ctx ends. While the files are bad, what they were before
// stays in force; each bad state is logged once.
func (f *manifestFolder) follow(ctx context.Context, log logr.Logger) {
	seen, judged := "", f.hash // the hashes of the last look, and of the last files that were taken or refused
	for pause.For(ctx, followEvery) == nil {
		c, err := f.read()
		if err != nil {
			c.hash = "error: " + err.Error()
		}
		settled := c.hash == seen
		seen = c.hash
		if c.hash == judged || !settled {
			continue
		}
		judged = c.hash
		if err == nil {
			err = f.load(c)
		} else {
			f.count("", err)
		}
		if err != nil {
			log.Error(err, "static manifests cannot be read; those before stay in force", "plugin", f.plugin)
			continue
		}
		log.Info("static manifests are in force", "plugin", f.plugin, "hash", c.hash)
	}
}

func (f *manifestFolder) collect(b *metrics.Batch, server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, status := range []string{"success", "failure"} {
		if f.reloads[i] > 0 {
			b.Add(0, float64(f.reloads[i]), server, f.plugin, status)
			b.Add(1, float64(f.reloaded[i].UnixNano())/1e9, server, f.plugin, status)
		}
	}
	b.Add(2, 1, server, f.hash, f.plugin)
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
