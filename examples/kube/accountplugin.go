package kube

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// ServiceAccountName is the name of the plugin that [ServiceAccountPlugin] returns.
const ServiceAccountName = "ServiceAccount"

const (
	defaultAccount = "default"
	accountVolume  = "kube-api-access-" // names of volumes with credentials begin with it
	accountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	accountSeconds = 3607 // a lifetime that nobody asks for by hand, so that tokens of pods are known by it
	accountSecrets = "kubernetes.io/enforce-mountable-secrets"
	accountTries   = 10 // for the default account, which a controller makes
)

// ServiceAccountPlugin returns the plugin that gives each new pod the service account of its name, or
// the account "default" of its namespace. It rejects a pod whose account does not exist. Unless the pod or
// its account declines, the pod's containers get a volume with credentials. A pod without secrets
// for images gets those of its account.
//
// kube-controller-manager makes the default accounts. Without it, somebody has to, or pods are rejected.
func ServiceAccountPlugin() admission.Plugin {
	return admission.Plugin{
		Name: ServiceAccountName, Mutator: admission.MutatorFunc(addAccount), Validator: admission.ValidatorFunc(checkAccount),
		Rules: []admission.Rule{
			{Operations: []admission.Operation{admission.Create}, Groups: []string{""}, Resources: []string{"pods"}},
			{Operations: []admission.Operation{admission.Update}, Groups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}},
		},
	}
}

// addAccount gives a new pod what comes from its account. A kubelet would not recognize its own mirror pod
// if something was added to it.
func addAccount(ctx context.Context, r *admission.Request) (map[string]any, error) {
	if r.Operation != admission.Create {
		return r.Object, nil
	}
	if isMirror(r.Object) {
		return r.Object, checkMirror(r) // before what the kind says
	}
	name := cmp.Or(word(at(r.Object, "spec", "serviceAccountName")), defaultAccount)
	account, err := accountOf(ctx, r, name)
	if err != nil {
		return nil, err
	}
	edits := []admission.Edit{
		admission.Set(name, "spec", "serviceAccountName"), admission.Set(name, "spec", "serviceAccount"),
	}
	if automounts(r.Object, account) {
		edits = append(edits, mountToken(r.Object)...)
	}
	if secrets := list(at(account, "imagePullSecrets")); len(secrets) > 0 && size(at(r.Object, "spec", "imagePullSecrets")) == 0 {
		edits = append(edits, admission.Set(secrets, "spec", "imagePullSecrets"))
	}
	return admission.Patched(r, edits...)
}

func isMirror(pod any) bool {
	return at(pod, "metadata", "annotations", corev1.MirrorPodAnnotationKey) != nil
}

// automounts reports whether a pod gets credentials. The pod itself decides first.
func automounts(pod, account any) bool {
	if said, ok := at(pod, "spec", "automountServiceAccountToken").(bool); ok {
		return said
	}
	said, ok := at(account, "automountServiceAccountToken").(bool)
	return said || !ok
}

// accountOf returns an account. It waits a while for the default account of a new namespace.
func accountOf(ctx context.Context, r *admission.Request, name string) (map[string]any, error) {
	refuse := func(err error) error {
		return refused(r, fmt.Sprintf("error looking up service account %s/%s: %v", r.Namespace, name, err))
	}
	if r.Server == nil {
		return nil, refuse(errNoServer)
	}
	pause := time.Duration(100+rand.Int64N(100)) * time.Millisecond //nolint:gosec // spreads retries
	for try := 1; ; try++ {
		account, err := r.Server.Get(ctx, meta.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, r.Namespace, name)
		switch {
		case err == nil:
			return account, nil
		case !status.IsNotFound(err):
			return nil, refuse(err)
		case name != defaultAccount || try == accountTries:
			return nil, refuse(status.NotFound(meta.GroupResource{Resource: "serviceaccount"}, name))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// mountToken mounts credentials into the containers that have nothing at that path, and adds the volume
// unless the pod brings one.
func mountToken(pod map[string]any) (edits []admission.Edit) {
	volumes := list(at(pod, "spec", "volumes"))
	name := accountVolume + utilrand.String(5)
	had := slices.IndexFunc(volumes, func(v any) bool { return strings.HasPrefix(word(at(v, "name")), accountVolume) })
	if had >= 0 {
		name = word(at(volumes[had], "name"))
	}
	for _, field := range []string{"initContainers", "containers"} {
		containers := slices.Clone(list(at(pod, "spec", field)))
		changed := false
		for i, c := range containers {
			mounts := list(at(c, "volumeMounts"))
			if slices.ContainsFunc(mounts, func(m any) bool { return word(at(m, "mountPath")) == accountPath }) {
				continue
			}
			mount := map[string]any{"name": name, "readOnly": true, "mountPath": accountPath}
			containers[i], changed = with(c, "volumeMounts", append(slices.Clone(mounts), mount)), true
		}
		if changed {
			edits = append(edits, admission.Set(containers, "spec", field))
		}
	}
	if len(edits) > 0 && had < 0 {
		edits = append(edits, admission.Set(append(slices.Clone(volumes), tokenVolume(name)), "spec", "volumes"))
	}
	return edits
}

// tokenVolume is a volume with a token, the certificate authority of the server, and the namespace.
func tokenVolume(name string) map[string]any {
	file := func(key, value string) []any { return []any{map[string]any{key: value, "path": value}} }
	return map[string]any{"name": name, "projected": map[string]any{
		"defaultMode": int64(corev1.ProjectedVolumeSourceDefaultMode),
		"sources": []any{
			map[string]any{"serviceAccountToken": map[string]any{"path": "token", "expirationSeconds": int64(accountSeconds)}},
			map[string]any{"configMap": map[string]any{"name": "kube-root-ca.crt", "items": file("key", "ca.crt")}},
			map[string]any{"downwardAPI": map[string]any{"items": []any{map[string]any{
				"path": "namespace", "fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"},
			}}}},
		},
	}}
}

// with returns an object with another value of a field.
func with(object any, field string, value any) map[string]any {
	old, _ := object.(map[string]any)
	out := make(map[string]any, len(old)+1)
	for k, v := range old {
		out[k] = v
	}
	out[field] = value
	return out
}

// checkAccount judges the pod that is stored, after other plugins may have changed it.
func checkAccount(ctx context.Context, r *admission.Request) error {
	if r.Operation == admission.Create && isMirror(r.Object) {
		return checkMirror(r)
	}
	name := word(at(r.Object, "spec", "serviceAccountName"))
	if name == "" {
		return refused(r, fmt.Sprintf("no service account specified for pod %s/%s", r.Namespace, r.Name))
	}
	account, err := accountOf(ctx, r, name)
	if err != nil {
		return err
	}
	if only, _ := strconv.ParseBool(word(at(account, "metadata", "annotations", accountSecrets))); !only {
		return nil
	}
	if r.Operation == admission.Update {
		return checkMountable(r, account, "ephemeralContainers")
	}
	return checkMountable(r, account, "volumes", "initContainers", "containers", "imagePullSecrets")
}

// checkMountable rejects a pod that uses secrets which its account does not list, in some fields of
// its spec.
func checkMountable(r *admission.Request, account any, fields ...string) error {
	own, pulls := setOf(words(at(account, "secrets"), "name")), setOf(words(at(account, "imagePullSecrets"), "name"))
	of := word(at(account, "metadata", "name"))
	kind := map[string]string{"initContainers": "init container", "containers": "container", "ephemeralContainers": "ephemeral container"}
	for _, field := range fields {
		for i, item := range list(at(r.Object, "spec", field)) {
			var why string
			switch field {
			case "volumes":
				if name := word(at(item, "secret", "secretName")); at(item, "secret") != nil && !own[name] {
					why = fmt.Sprintf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", name, of)
				}
			case "imagePullSecrets":
				if name := word(at(item, "name")); !pulls[name] {
					why = fmt.Sprintf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, name, of)
				}
			default:
				if what, name := foreignSecret(item, own); what != "" {
					why = fmt.Sprintf("%s %s with %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret",
						kind[field], word(at(item, "name")), what, name, of)
				}
			}
			if why != "" {
				return refused(r, why)
			}
		}
	}
	return nil
}

// foreignSecret finds a secret in the environment of a container that is not among those of its account.
func foreignSecret(container any, own map[string]bool) (what, name string) {
	for _, e := range list(at(container, "env")) {
		if ref := at(e, "valueFrom", "secretKeyRef"); ref != nil && !own[word(at(ref, "name"))] {
			return "envVar " + word(at(e, "name")), word(at(ref, "name"))
		}
	}
	for _, e := range list(at(container, "envFrom")) {
		if ref := at(e, "secretRef"); ref != nil && !own[word(at(ref, "name"))] {
			return "envFrom", word(at(ref, "name"))
		}
	}
	return "", ""
}

// checkMirror rejects a mirror pod with rights of an account: a kubelet makes it of a file, and must not
// lend what it may read by that.
func checkMirror(r *admission.Request) error {
	spec := at(r.Object, "spec")
	switch {
	case word(at(spec, "serviceAccountName")) != "":
		return refused(r, "a mirror pod may not reference service accounts")
	case usesSecrets(spec):
		return refused(r, "a mirror pod may not reference secrets")
	}
	for _, v := range list(at(spec, "volumes")) {
		for _, s := range list(at(v, "projected", "sources")) {
			if at(s, "serviceAccountToken") != nil {
				return refused(r, "a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

// usesSecrets reports whether a pod names a secret anywhere.
func usesSecrets(spec any) bool {
	if size(at(spec, "imagePullSecrets")) > 0 {
		return true
	}
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range list(at(spec, field)) {
			if what, _ := foreignSecret(c, nil); what != "" {
				return true
			}
		}
	}
	return slices.ContainsFunc(list(at(spec, "volumes")), volumeHasSecret)
}

// volumeHasSecret reports whether a volume names a secret, in any of the ways that its sources have.
func volumeHasSecret(v any) bool {
	volume, _ := v.(map[string]any)
	for _, source := range volume {
		for _, field := range []string{"secretName", "secretRef", "nodePublishSecretRef"} {
			if at(source, field) != nil {
				return true
			}
		}
		for _, s := range list(at(source, "sources")) {
			if at(s, "secret") != nil {
				return true
			}
		}
	}
	return false
}
