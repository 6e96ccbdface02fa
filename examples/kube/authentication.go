package kube

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Servers that this server forwards requests to read from a ConfigMap which clients it accepts, and
// how it names the users of forwarded requests.
const (
	authenticationName      = "extension-apiserver-authentication"
	authenticationNamespace = "kube-system"
	authenticationLooks     = 10 * time.Second // how soon a changed file is published
)

// authenticationHook publishes what data returns, and publishes it again when it changes. A file that
// cannot be read at the moment changes nothing.
func authenticationHook(data func() (map[string]string, error)) registry.Hook {
	publish := func(ctx context.Context, o registry.Objects) error {
		now, err := data()
		if err != nil {
			return err
		}
		return publishAuthentication(ctx, o, now)
	}
	return registry.Hook{
		Name: "start-cluster-authentication-info-controller", Start: publish,
		Run: every(authenticationLooks, publish),
	}
}

func publishAuthentication(ctx context.Context, o registry.Objects, data map[string]string) error {
	maps.DeleteFunc(data, func(_, value string) bool { return value == "" })
	published := registry.From[corev1.ConfigMap](o).AsSystem()
	_, err := published.Modify(ctx, authenticationNamespace, authenticationName, func(m *corev1.ConfigMap) error {
		if !maps.Equal(m.Data, data) {
			m.Data = data
		}
		return nil
	})
	if !status.IsNotFound(err) {
		return err
	}
	_, err = published.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: authenticationName, Namespace: authenticationNamespace}, Data: data,
	})
	if err != nil && !status.IsAlreadyExists(err) { // another server was faster; the next look sees to it
		return fmt.Errorf("create the ConfigMap %s: %w", authenticationName, err)
	}
	return nil
}
