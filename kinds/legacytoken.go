package kinds

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// TrackLegacyTokens writes the day on which a token in a Secret was used last into a label of the Secret,
// once a day, and the day of the first start into a ConfigMap of kube-system, so that a controller can tell
// which tokens nobody uses. [IssueTokens] does it too; it is for servers with a kind of their own for
// service accounts. Without tokens it does nothing.
func TrackLegacyTokens(tokens *serviceaccount.Tokens) registry.Definition {
	return legacyTokens{tokens}
}

// TrackingConfigMap is the ConfigMap of kube-system whose key since has the day since which the use of
// legacy tokens is tracked.
const TrackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"

type legacyTokens struct{ tokens *serviceaccount.Tokens }

// Define implements registry.Definition.
func (l legacyTokens) Define(registry.Env) (registry.Bundle, error) {
	hook := registry.Hook{Name: "start-legacy-token-tracking-controller", Start: func(ctx context.Context, o registry.Objects) error {
		if l.tokens.AcceptsLegacy() {
			beginTracking(asServer(ctx), o)
		}
		return nil
	}}
	if l.tokens.AcceptsLegacy() {
		hook.Run = func(ctx context.Context, o registry.Objects) {
			l.tokens.Record(ctx, func(ctx context.Context, u serviceaccount.Use) { record(asServer(ctx), o, u) })
		}
	}
	return registry.Bundle{Hooks: []registry.Hook{hook}}, nil
}

// asServer makes the server itself the user of a context.
func asServer(ctx context.Context) context.Context {
	return authn.WithUser(ctx, authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}})
}

// beginTracking notes the day. It fails, which is no matter, if there is a note already, or if the server
// has no ConfigMaps.
func beginTracking(ctx context.Context, o registry.Objects) {
	of := registry.Target{Resource: meta.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "kube-system"}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": TrackingConfigMap},
		"data": map[string]any{"since": time.Now().UTC().Format(time.DateOnly)},
	})
	if err == nil {
		_, _ = o.Create(ctx, of, body, registry.WriteOptions{})
	}
}

// record writes the label. A Secret that is gone meanwhile, or another one, needs none. After another
// failure the next use tries again.
func record(ctx context.Context, o registry.Objects, u serviceaccount.Use) {
	of := registry.Target{Resource: meta.GroupVersionResource{Version: "v1", Resource: "secrets"}, Namespace: u.Namespace, Name: u.Secret}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": u.UID, "labels": map[string]any{serviceaccount.LastUsedLabel: u.Day},
	}})
	if err == nil {
		_, _ = o.Patch(ctx, of, registry.PatchRequest{Type: meta.MergePatch, Body: body}, registry.WriteOptions{})
	}
}
