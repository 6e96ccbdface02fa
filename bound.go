package kindwright

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// binding gives a value that reads objects its access to the server. The value is bound while the
// server is made, before the engine exists, so the binding records what the value asks to observe.
type binding struct {
	server *Server
	name   string // of the readiness check
	wanted []wanted
	bound  bool // Bind has returned
	kept   []*engine.Observation

	optional []*engine.Observation // of kinds that the server may lack
}

// wanted is a call of Binding.Observe.
type wanted struct {
	of       meta.GroupResource
	observer watch.Observer
}

var _ watch.Binding = (*binding)(nil)

// bind binds a value to the server. The sort is a word for the readiness check.
func bind[T any](s *Server, sort, name string, make func(watch.Binding) (T, error)) (T, *binding, error) {
	b := &binding{server: s, name: sort + "-" + name}
	if name == "" {
		var none T
		return none, nil, fmt.Errorf("%s %T has to be bound and has no name", sort, none)
	}
	made, err := make(b)
	if err == nil && guard.IsNil(any(made)) {
		err = errors.New("the method Bind returned nil")
	}
	if err != nil {
		return made, nil, fmt.Errorf("%s %q: %w", sort, name, err)
	}
	b.bound = true
	s.bindings = append(s.bindings, b)
	return made, b, nil
}

func (b *binding) Observe(of meta.GroupResource, o watch.Observer) error {
	if guard.IsNil(o) {
		return fmt.Errorf("observe %s: the observer is nil", of)
	}
	if b.bound {
		return fmt.Errorf("observe %s: it is too late, Bind has returned", of)
	}
	b.wanted = append(b.wanted, wanted{of, o})
	return nil
}

func (b *binding) Get(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error) {
	return b.server.engine.Get(ctx, registry.Target{Resource: of, Namespace: namespace, Name: name}, registry.ListRequest{})
}

// Err reports why the value must not be used now: an object kind that it observes is missing, or
// its view of the objects is not current.
func (b *binding) Err() error {
	for _, o := range b.kept {
		if err := o.Err(); err != nil {
			return err
		}
	}
	for _, o := range b.optional {
		if err := o.Err(); o.Attached() && err != nil {
			return err
		}
	}
	return nil
}

// connect starts the observations and adds the readiness checks.
func (s *Server) connect() error {
	var problems []error
	for _, b := range s.bindings {
		for _, w := range b.wanted {
			if watch.Required(w.observer) && !slices.ContainsFunc(s.bundle.Resources, func(r *registry.Resource) bool {
				return r.Stored == nil && r.Group == w.of.Group && r.Plural == w.of.Resource
			}) {
				problems = append(problems, fmt.Errorf("%s observes %s, which the server does not have; give the kind to Serve", b.name, w.of))
				continue
			}
			o, err := s.engine.Observe(w.of, w.observer)
			switch {
			case err != nil:
			case watch.Required(w.observer):
				b.kept = append(b.kept, o)
			default:
				b.optional = append(b.optional, o)
			}
			problems = append(problems, err)
		}
		check := health.Check{Name: b.name, Check: func(context.Context) error { return b.Err() }}
		problems = append(problems, s.health.Add(health.Ready, check))
	}
	return errors.Join(problems...)
}

// bindAuthenticators replaces the authenticators that need a binding, also inside unions.
func (s *Server) bindAuthenticators(all []authn.Authenticator) ([]authn.Authenticator, error) {
	out := make([]authn.Authenticator, len(all))
	for i, a := range all {
		if guard.IsNil(a) {
			return nil, fmt.Errorf("Authenticate: a union has the nil authenticator %d", i)
		}
		var err error
		if out[i], err = s.bindAuthenticator(a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Server) bindAuthenticator(a authn.Authenticator) (authn.Authenticator, error) {
	switch a := a.(type) {
	case interface{ Unwrap() []authn.Authenticator }:
		members, err := s.bindAuthenticators(a.Unwrap())
		return authn.Union(members...), err
	case watch.Bindable[authn.Authenticator]:
		made, b, err := bind(s, "authenticator", a.Name(), a.Bind)
		return boundAuthenticator{made, b}, err
	}
	return a, nil
}

// boundAuthenticator fails for every credential while the objects that the authenticator needs are
// not known.
type boundAuthenticator struct {
	authn.Authenticator
	binding *binding
}

// IdentityHeaders returns those of the authenticator.
func (a boundAuthenticator) IdentityHeaders() (names, prefixes []string) {
	return authn.IdentityHeaders(a.Authenticator)
}

// HeaderRevision returns that of the authenticator.
func (a boundAuthenticator) HeaderRevision() uint64 { return authn.HeaderRevision(a.Authenticator) }

func (a boundAuthenticator) Authenticate(r *http.Request) (authn.User, bool, error) {
	if err := a.binding.Err(); err != nil {
		if !authn.HasCredential(r) {
			return authn.User{}, false, nil
		}
		return authn.User{}, false, fmt.Errorf("%s: %w", a.binding.name, err)
	}
	return a.Authenticator.Authenticate(r)
}

// bindAuthorizers replaces the authorizers that need a binding, also inside unions.
func (s *Server) bindAuthorizers(all []authz.Authorizer) ([]authz.Authorizer, error) {
	out := make([]authz.Authorizer, len(all))
	for i, z := range all {
		if guard.IsNil(z) {
			return nil, fmt.Errorf("Authorize: a union has the nil authorizer %d", i)
		}
		var err error
		if out[i], err = s.bindAuthorizer(z); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Server) bindAuthorizer(z authz.Authorizer) (authz.Authorizer, error) {
	switch z := z.(type) {
	case interface {
		Unwrap() []authz.Authorizer
		Rewrap(members []authz.Authorizer) authz.Authorizer
	}:
		members, err := s.bindAuthorizers(z.Unwrap())
		if err != nil {
			return nil, err
		}
		return z.Rewrap(members), nil
	case interface{ Unwrap() []authz.Authorizer }:
		members, err := s.bindAuthorizers(z.Unwrap())
		return authz.Union(members...), err
	case watch.Bindable[authz.Authorizer]:
		made, b, err := bind(s, "authorizer", z.Name(), z.Bind)
		return boundAuthorizer{made, b}, err
	}
	return z, nil
}

// boundAuthorizer decides nothing while the objects that the authorizer needs are not known: clients
// get 503 and retry.
type boundAuthorizer struct {
	authz.Authorizer
	binding *binding
}

func (z boundAuthorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if err := z.binding.Err(); err != nil {
		return authz.Deny, "", fmt.Errorf("%w: %s: %w", authz.ErrUnavailable, z.binding.name, err)
	}
	return z.Authorizer.Authorize(ctx, a)
}

// Rules lists what the authorizer allows, if it can.
func (z boundAuthorizer) Rules(ctx context.Context, u authn.User, namespace string) (authz.Rules, error) {
	if err := z.binding.Err(); err != nil {
		return authz.Rules{}, fmt.Errorf("%s: %w", z.binding.name, err)
	}
	return authz.RulesOf(ctx, z.Authorizer, u, namespace), nil
}

// bindPlugins makes the sides of the plugins that have Bind.
func (s *Server) bindPlugins(all []admission.Plugin) ([]admission.Plugin, error) {
	out := slices.Clone(all)
	for i, p := range all {
		if p.Bind == nil {
			continue
		}
		if p.Mutator != nil || p.Validator != nil {
			return nil, fmt.Errorf("admission plugin %q has Bind and a side; give one of them", p.Name)
		}
		var err error
		if out[i], err = s.bindPlugin(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Server) bindPlugin(p admission.Plugin) (admission.Plugin, error) {
	made, b, err := bind(s, "admission", p.Name, func(b watch.Binding) (admission.Plugin, error) {
		m, v, err := p.Bind(b)
		return admission.Plugin{Name: p.Name, Rules: p.Rules, Handles: p.Handles, After: p.After, Mutator: m, Validator: v}, err
	})
	if m := made.Mutator; m != nil && !guard.IsNil(m) {
		s.closeAtEnd(m)
		made.Mutator = boundMutator{m, b}
	}
	if v := made.Validator; v != nil && !guard.IsNil(v) {
		s.closeAtEnd(v)
		made.Validator = boundValidator{v, b}
	}
	return made, err
}

// closeAtEnd has what was made for this server alone closed when the server has ended, such as the idle
// connections to webhooks. Both sides of a plugin may be one value, which is closed once.
func (s *Server) closeAtEnd(made any) {
	c, ok := made.(io.Closer)
	if !ok || reflect.ValueOf(c).Comparable() && slices.Contains(s.closers, c) {
		return
	}
	s.closers = append(s.closers, c)
}

// closeAll closes what was made for this server alone.
func (s *Server) closeAll() {
	for _, c := range s.closers {
		if err := closed(c); err != nil {
			s.cfg.log.Error(err, "a part of the server could not be closed", guard.WithStack(err)...)
		}
	}
}

// closed closes what a user may have written.
func closed(c io.Closer) (err error) {
	defer guard.Recover(&err, "Close")
	return c.Close()
}

// boundMutator rejects writes while it cannot judge them.
type boundMutator struct {
	admission.Mutator
	binding *binding
}

func (m boundMutator) Mutate(ctx context.Context, r *admission.Request) (map[string]any, error) {
	if err := m.binding.refusal(); err != nil {
		return nil, err
	}
	return m.Mutator.Mutate(ctx, r)
}

// Concerns reports whether the mutator has to see the objects of a request.
func (m boundMutator) Concerns(r *admission.Request) bool { return m.binding.concerns(m.Mutator, r) }

// boundValidator rejects writes while it cannot judge them.
type boundValidator struct {
	admission.Validator
	binding *binding
}

func (v boundValidator) Validate(ctx context.Context, r *admission.Request) error {
	if err := v.binding.refusal(); err != nil {
		return err
	}
	return v.Validator.Validate(ctx, r)
}

// Concerns reports whether the validator has to see the objects of a request.
func (v boundValidator) Concerns(r *admission.Request) bool {
	return v.binding.concerns(v.Validator, r)
}

// concerns asks one side of a plugin, which may not know yet what it is about.
func (b *binding) concerns(side any, r *admission.Request) bool {
	s, ok := side.(admission.Selective)
	return !ok || b.Err() != nil || s.Concerns(r)
}

// refusal is the answer to a write that a plugin cannot judge at this moment.
func (b *binding) refusal() error {
	if err := b.Err(); err != nil {
		return status.ServiceUnavailable("the server cannot admit this write yet").WithRetryAfter(1).WithCause(fmt.Errorf("%s: %w", b.name, err))
	}
	return nil
}
