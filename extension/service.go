package extension

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// apiService is an APIService of apiregistration.k8s.io/v1.
type apiService struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Spec apiServiceSpec `json:"spec"`
}

type apiServiceSpec struct {
	Service               *serviceReference `json:"service,omitempty"`
	Group                 string            `json:"group,omitempty"`
	Version               string            `json:"version,omitempty"`
	InsecureSkipTLSVerify bool              `json:"insecureSkipTLSVerify,omitempty"`
	CABundle              []byte            `json:"caBundle,omitempty"`
	GroupPriorityMinimum  int32             `json:"groupPriorityMinimum"`
	VersionPriority       int32             `json:"versionPriority"`
}

type serviceReference struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Port      *int32 `json:"port,omitempty"`
}

// service is a Service, as far as it is written.
type service struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Spec serviceSpec `json:"spec"`
}

type serviceSpec struct {
	Type         string            `json:"type,omitempty"`
	ExternalName string            `json:"externalName,omitempty"`
	Selector     map[string]string `json:"selector,omitempty"`
	Ports        []portSpec        `json:"ports,omitempty"`

	PublishNotReadyAddresses bool `json:"publishNotReadyAddresses,omitempty"`
}

type portSpec struct {
	Name       string `json:"name,omitempty"`
	Port       int32  `json:"port"`
	TargetPort any    `json:"targetPort,omitempty"`
}

// keeper keeps the APIServices of the server right, and outside of a cluster the Service. All replicas
// do so, and write the same.
type keeper struct {
	cfg      *Config
	versions []meta.GroupVersion
	retired  []meta.GroupVersion // that are understood and not served any more
	log      logr.Logger
	bundle   func() []byte
	changed  chan struct{} // holds one wake-up

	apis     *client.Client[apiService]
	services *client.Client[service]

	mu    sync.Mutex
	wrong error // guarded by mu

	work sync.Mutex // held while the objects are looked at; guards has
	has  sighting
}

// sighting is since when the APIServices have a bundle, as far as this replica has seen.
type sighting struct {
	bundle   []byte
	versions string    // of the objects: between two looks the bundle may have been another
	since    time.Time // zero if they do not have it
}

// keepEvery is how soon a change that somebody else has made is put right.
const keepEvery = 10 * time.Second

// automanaged is the label of an APIService that stands for a group of the host itself.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

var errNotKept = errors.New("they have not been written yet")

func newKeeper(cfg *Config, versions, retired []meta.GroupVersion, log logr.Logger) *keeper {
	h, at, logged := cfg.Host.Requests(), client.At(cfg.Host.URL), client.WithLogger(log)
	return &keeper{
		cfg: cfg, versions: versions, retired: retired, log: log, changed: make(chan struct{}, 1), wrong: errNotKept,
		apis: client.For(h, client.Resource[apiService]{
			Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices", Kind: "APIService", ClusterScoped: true,
		}, at, logged),
		services: client.For(h, client.Resource[service]{Version: "v1", Plural: "services", Kind: "Service"}, at, logged),
	}
}

// wake makes run look at once.
func (k *keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *keeper) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wrong
}

// run keeps the objects right until ctx ends.
func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		err := k.keep(ctx)
		if ctx.Err() != nil {
			return
		}
		k.mu.Lock()
		if err != nil && (k.wrong == nil || k.wrong.Error() != err.Error()) {
			k.log.Error(err, "the host does not know the server as it is; trying again")
		}
		k.wrong = err
		k.mu.Unlock()
		select {
		case <-tick.C:
		case <-k.changed:
		case <-ctx.Done():
			return
		}
	}
}

func (k *keeper) keep(ctx context.Context) error {
	_, err := k.look(ctx)
	return err
}

// look puts the objects right. It returns which bundle the APIServices have, as far as the host said
// so now. One that belongs to another server does not count.
func (k *keeper) look(ctx context.Context) (sighting, error) {
	k.work.Lock()
	defer k.work.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*keepEvery)
	defer cancel()
	problems, bundle := []error{k.keepService(ctx)}, k.bundle()
	right, known, versions := true, true, ""
	for i, gv := range k.versions {
		version, err := k.keepAPI(ctx, k.apiService(gv, i, bundle))
		_, foreign := errors.AsType[*foreignError](err)
		right, known = right && (version != "" || err != nil), known && (err == nil || foreign)
		versions += version + ","
		problems = append(problems, err)
	}
	problems = append(problems, k.forget(ctx, k.retired))
	err := errors.Join(problems...)
	switch {
	case !right: // what was written counts once it has been read
		k.has = sighting{}
		k.wake()
		return sighting{}, err
	case !known:
		return sighting{}, err
	case k.has.versions != versions || !bytes.Equal(k.has.bundle, bundle):
		k.has = sighting{bundle, versions, time.Now()}
	}
	return k.has, err
}

// told looks at the APIServices and returns since when they have a bundle. The time is zero if they do
// not have it, or if the host does not say.
func (k *keeper) told(ctx context.Context, bundle []byte) time.Time {
	for range 2 { // to write it, and to read it
		if has, _ := k.look(ctx); !has.since.IsZero() && bytes.Equal(has.bundle, bundle) {
			return has.since
		}
	}
	return time.Time{}
}

// apiService is the APIService of a version.
func (k *keeper) apiService(gv meta.GroupVersion, i int, bundle []byte) *apiService {
	port := k.cfg.port()
	return &apiService{
		TypeMeta:   meta.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		ObjectMeta: meta.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec: apiServiceSpec{
			Service: &serviceReference{Namespace: k.cfg.Namespace, Name: k.cfg.Name, Port: &port},
			Group:   gv.Group, Version: gv.Version, CABundle: bundle,
			GroupPriorityMinimum: k.cfg.GroupPriority, VersionPriority: max(1, k.cfg.VersionPriority-int32(i)), //nolint:gosec // there are few versions
		},
	}
}

// keepAPI creates an APIService, or puts it right. It leaves one alone that is not the server's. It
// returns the version of an object that was right, and "" of one that was not.
func (k *keeper) keepAPI(ctx context.Context, want *apiService) (version string, err error) {
	have, err := k.apis.Get(ctx, want.Key())
	if status.IsNotFound(err) {
		_, err = k.apis.Create(ctx, want)
		return "", err
	}
	if err != nil {
		return "", err
	}
	if why := foreign(have, want); why != "" {
		return "", &foreignError{fmt.Sprintf("APIService %s: %s", want.Name, why)}
	}
	if equal(have.Spec, want.Spec) {
		return have.ResourceVersion, nil
	}
	have.Spec = want.Spec
	_, err = k.apis.Update(ctx, have)
	if status.IsConflict(err) {
		return "", nil // another replica, or somebody else: look again
	}
	return "", err
}

// foreignError says that an APIService belongs to another server.
type foreignError struct{ message string }

func (e *foreignError) Error() string { return e.message }

// foreign says why an APIService is not one of the server, "" if it is.
func foreign(have, want *apiService) string {
	switch s := have.Spec.Service; {
	case have.Labels[automanaged] != "" || s == nil:
		return "the host serves the group itself"
	case s.Name != want.Spec.Service.Name || s.Namespace != want.Spec.Service.Namespace:
		return fmt.Sprintf("it is for the service %s/%s; delete it if this server is to take its place", s.Namespace, s.Name)
	}
	return ""
}

func equal(a, b apiServiceSpec) bool {
	port := func(s *serviceReference) int32 {
		if s == nil || s.Port == nil {
			return servicePort
		}
		return *s.Port
	}
	return a.Group == b.Group && a.Version == b.Version && a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && bytes.Equal(a.CABundle, b.CABundle) &&
		a.GroupPriorityMinimum == b.GroupPriorityMinimum && a.VersionPriority == b.VersionPriority && port(a.Service) == port(b.Service)
}

// keepService writes the Service of a server outside of the cluster.
func (k *keeper) keepService(ctx context.Context) error {
	if k.cfg.Advertise == "" {
		return nil
	}
	host, port, err := k.cfg.advertised()
	if err != nil {
		return err
	}
	want := &service{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta.Named(k.cfg.Namespace, k.cfg.Name),
		Spec:       serviceSpec{Type: externalName, ExternalName: host, Ports: []portSpec{{Name: "https", Port: port}}},
	}
	have, err := k.services.Get(ctx, want.Key())
	switch {
	case status.IsNotFound(err):
		_, err = k.services.Create(ctx, want)
		return err
	case err != nil:
		return err
	case have.Spec.Type != externalName:
		return fmt.Errorf("service %s: is not of type ExternalName, so it belongs to a server in the cluster", want.Key())
	case have.Spec.ExternalName == host && len(have.Spec.Ports) == 1 && have.Spec.Ports[0].Port == port:
		return nil
	}
	have.Spec.ExternalName, have.Spec.Ports = host, want.Spec.Ports
	_, err = k.services.Update(ctx, have)
	return err
}

// forget deletes the APIServices of versions that are the server's. While replicas of a former program
// run that serve such a version, they write it again.
func (k *keeper) forget(ctx context.Context, versions []meta.GroupVersion) error {
	var problems []error
	for i, gv := range versions {
		want := k.apiService(gv, i, nil)
		have, err := k.apis.Get(ctx, want.Key())
		switch {
		case status.IsNotFound(err):
			continue
		case err == nil && foreign(have, want) != "":
			continue
		case err == nil:
			err = k.apis.Delete(ctx, want.Key(), client.IfUID(have.UID))
		}
		if !status.IsNotFound(err) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

const externalName = "ExternalName"

// remove deletes what keep has written, if it is the server's.
func (k *keeper) remove(ctx context.Context) error {
	problems := []error{k.forget(ctx, slices.Concat(k.versions, k.retired))}
	if k.cfg.Advertise == "" {
		return errors.Join(problems...)
	}
	key := meta.Key{Namespace: k.cfg.Namespace, Name: k.cfg.Name}
	have, err := k.services.Get(ctx, key)
	if err == nil && have.Spec.Type == externalName {
		err = k.services.Delete(ctx, key)
	}
	if !status.IsNotFound(err) {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
