package kindwright

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// Fork makes a server that continues from the state of this one, which must be running. From then
// on the two are independent: neither sees the other's writes, and either may end. Start the fork
// like a server made by New. Start hooks do not run again, because their effects are part of the
// state. Package apitest makes a fork for each of the tests that begin alike.
//
// The fork serves the same kinds, including those installed meanwhile. The two share what the
// server knows of their objects until one of them changes it, so nothing is read or decoded.
// Versions continue: a list, a continue token or a watch from before the fork continues in the
// fork, as far back as its store remembers.
//
// The function store makes the store of the fork, as memory.DB.Fork does. The new store must hold
// at least what this server's store holds at a revision. While store runs, no write of this
// server's clients is acknowledged. The caller closes the store after Wait.
//
// The options change the settings taken over from this server; what they add is added to the fork
// alone. Install adds kinds. Values that options brought, such as authenticators and middleware,
// serve both.
//
// Fork may be called in a synctest bubble that this server is not in. The fork then lives in that
// bubble.
func (s *Server) Fork(store func(at storage.Revision) (storage.Backend, error), opts ...Option) (*Server, error) {
	f := &Server{cfg: s.cfg.clone(), random: rand.Reader, parts: slices.Clone(s.parts), parser: s.parser, forked: true}
	var problems []error
	for _, o := range opts {
		if o == nil {
			problems = append(problems, errors.New("an option is nil"))
			continue
		}
		problems = append(problems, o.apply(f.cfg))
	}
	if len(f.cfg.definitions) > len(s.cfg.definitions) {
		problems = append(problems, errors.New("Serve: a fork serves what the server does; give other kinds to its Install"))
	}
	if f.cfg.kubernetes.GroupDomain != s.cfg.kubernetes.GroupDomain || f.cfg.http.PathPrefix != s.cfg.http.PathPrefix {
		problems = append(problems, errors.New("a fork has the group domain and the path prefix of the server"))
	}
	if f.cfg.kubernetes.RuntimeConfig != s.cfg.kubernetes.RuntimeConfig {
		problems = append(problems, errors.New("Kubernetes.RuntimeConfig: a fork serves what the server does"))
	}
	if s.cfg.behind != nil || f.cfg.behind != nil {
		problems = append(problems, errors.New("Aggregate: a server that answers for others cannot be forked"))
	}
	if f.cfg.egress != s.cfg.egress {
		problems = append(problems, errors.New("Egress: a fork connects as the server does"))
	}
	problems = append(problems, f.cfg.readFeatures())
	f.draining, f.drain = context.WithCancel(context.Background())
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("kindwright: fork: %w", err)
	}
	if err := f.buildFrom(s, store); err != nil {
		return nil, fmt.Errorf("kindwright: fork: %w", err)
	}
	return f, nil
}

// buildFrom makes the parts of a fork.
func (s *Server) buildFrom(from *Server, store func(at storage.Revision) (storage.Backend, error)) error {
	s.buildReports()
	if err := s.buildAccess(); err != nil {
		return err
	}
	for i := range s.parts {
		if p := &s.parts[i]; p.Fork != nil {
			p.Gate, p.Hooks = p.Fork()
		}
	}
	s.bundle = join(s.parts)
	chain, err := s.buildAdmission()
	if err != nil {
		return err
	}
	engine := s.cfg.engine()
	if engine.Serves, err = s.cfg.selection(s.bundle.Resources); err != nil {
		return err
	}
	engine.Admission, engine.Authorizer, engine.Gate, engine.Logger = chain, s.authorizer, s.bundle.Gate, s.cfg.log
	s.buildCollector(&engine)
	s.engine, err = from.engine.Fork(engine, func(at storage.Revision) (*storage.Store, error) {
		b, err := store(at)
		if err != nil {
			return nil, err
		}
		if absent(b) {
			return nil, errors.New("the storage backend is nil")
		}
		if s.collector != nil && from.collector != nil {
			s.collector.TakeOver(from.collector)
		}
		s.backend = b
		return storage.New(b, storage.WithMonitor(s.meters.observeStore)), nil
	})
	if err != nil {
		return err
	}
	s.collectState()
	if err := s.buildHealth(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.handler, err = s.assemble(s.dispatch())
	return err
}

// clone copies a configuration, so that options may add to it.
func (c *config) clone() *config {
	out := *c
	out.definitions = slices.Clip(c.definitions)
	out.authenticators, out.authorizers = slices.Clip(c.authenticators), slices.Clip(c.authorizers)
	out.plugins, out.checks = slices.Clip(c.plugins), slices.Clip(c.checks)
	out.inserted = slices.Clip(c.inserted)
	return &out
}
