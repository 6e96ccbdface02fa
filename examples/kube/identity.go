package kube

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// A server has a lease in kube-system that it renews. So clients can tell how many servers there
// are. A server removes the leases of others that have expired.
const (
	identityLabel     = "apiserver.kubernetes.io/identity"
	identityNamespace = "kube-system"
	identityLasts     = time.Hour
	identityRenews    = 10 * time.Second
)

// identity is the lease of one server.
type identity struct {
	host   string
	holder string
}

// newIdentity names the lease after the host, so that a server finds its lease after a restart. The
// holder differs after each start.
func newIdentity(host string) identity { return identity{host: host, holder: rand.Text()} }

// name is the one that kube-apiserver gives its lease on this host.
func (i identity) name() string {
	var hashed []byte
	for _, part := range []string{i.host, "kube-apiserver"} {
		hashed = append(binary.BigEndian.AppendUint16(hashed, uint16(len(part))), part...)
	}
	sum := sha256.Sum256(hashed)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// every returns what does some work after each pause, until its context ends. What fails is tried again
// after the next one.
func every(pause time.Duration, work func(context.Context, registry.Objects) error) func(context.Context, registry.Objects) {
	return func(ctx context.Context, o registry.Objects) {
		ticks := time.NewTicker(pause)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				_ = work(ctx, o)
			}
		}
	}
}

// hooks renew the lease and remove expired ones. now is the server's clock.
func (i identity) hooks(now func() time.Time) []registry.Hook {
	renew := func(ctx context.Context, o registry.Objects) error { return i.renew(ctx, o, now()) }
	collect := func(ctx context.Context, o registry.Objects) error { return removeExpired(ctx, o, now()) }
	return []registry.Hook{
		{Name: "start-kube-apiserver-identity-lease-controller", Start: renew, Run: every(identityRenews, renew)},
		{Name: "start-kube-apiserver-identity-lease-garbage-collector", Start: collect, Run: every(identityLasts, collect)},
	}
}

// renew creates or renews the lease.
func (i identity) renew(ctx context.Context, o registry.Objects, now time.Time) error {
	leases := registry.From[kinds.Lease](o).AsSystem()
	seconds, at, holder := int32(identityLasts/time.Second), meta.NewMicroTime(now), i.name()+"_"+i.holder
	spec := kinds.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}
	_, err := leases.Modify(ctx, identityNamespace, i.name(), func(l *kinds.Lease) error {
		l.Spec = spec
		return nil
	})
	if !status.IsNotFound(err) {
		return err
	}
	_, err = leases.Create(ctx, &kinds.Lease{
		ObjectMeta: meta.ObjectMeta{
			Name: i.name(), Namespace: identityNamespace,
			Labels: map[string]string{identityLabel: "kube-apiserver", "kubernetes.io/hostname": i.host},
		},
		Spec: spec,
	})
	if status.IsAlreadyExists(err) {
		return nil // another server of this host was faster; the next renewal takes the lease
	}
	return err
}

// removeExpired deletes the leases of servers that are gone.
func removeExpired(ctx context.Context, o registry.Objects, now time.Time) error {
	leases := registry.From[kinds.Lease](o).AsSystem()
	selector, err := meta.ParseSelector(identityLabel + "=kube-apiserver")
	if err != nil {
		return err
	}
	for l, err := range leases.List(ctx, identityNamespace, registry.ListRequest{Labels: selector}) {
		if err != nil {
			return fmt.Errorf("list the leases of servers: %w", err)
		}
		if s := l.Spec; s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
			now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second)) {
			continue
		}
		options := registry.DeleteOptions{UID: l.UID}
		if err := leases.Delete(ctx, identityNamespace, l.Name, options); err != nil && !status.IsNotFound(err) && !status.IsConflict(err) {
			return fmt.Errorf("delete the lease %s: %w", l.Name, err)
		}
	}
	return nil
}
