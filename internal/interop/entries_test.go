package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds"
)

// Everything that client-go's types can say about config maps, secrets and service accounts comes
// back, as JSON and as protobuf.
func TestConfigMapsSecretsAndServiceAccountsKeepWhatClientGoSends(t *testing.T) {
	yes := true
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(media, func(t *testing.T) {
			srv := apitest.New(t, kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts())
			all, err := kubernetes.NewForConfig(&rest.Config{
				Host: srv.URL, Transport: srv.Transport(),
				ContentConfig: rest.ContentConfig{ContentType: media, AcceptContentTypes: media},
			})
			require.NoError(t, err)
			core, at := all.CoreV1(), metav1.ObjectMeta{Namespace: "default", Name: "a"}

			m, err := core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: at, Immutable: &yes, Data: map[string]string{"a": "x"}, BinaryData: map[string][]byte{"b": {0, 255}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, map[string]string{"a": "x"}, m.Data)
			require.Equal(t, map[string][]byte{"b": {0, 255}}, m.BinaryData)
			m.Data["a"] = "y"
			_, err = core.ConfigMaps("default").Update(t.Context(), m, metav1.UpdateOptions{})
			require.True(t, errors.IsInvalid(err), "%v", err)

			s, err := core.Secrets("default").Create(t.Context(), &corev1.Secret{
				ObjectMeta: at, Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("ann")},
				StringData: map[string]string{"password": "x"},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, map[string][]byte{"username": []byte("ann"), "password": []byte("x")}, s.Data)
			require.Empty(t, s.StringData)
			s.Type = corev1.SecretTypeOpaque
			_, err = core.Secrets("default").Update(t.Context(), s, metav1.UpdateOptions{})
			require.True(t, errors.IsInvalid(err), "%v", err)

			sent := &corev1.ServiceAccount{
				ObjectMeta: at, AutomountServiceAccountToken: &yes, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
				Secrets: []corev1.ObjectReference{{Kind: "Secret", Namespace: "default", Name: "s", UID: "u", APIVersion: "v1", ResourceVersion: "7", FieldPath: "data"}},
			}
			got, err := core.ServiceAccounts("default").Create(t.Context(), sent, metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, sent.Secrets, got.Secrets)
			require.Equal(t, sent.ImagePullSecrets, got.ImagePullSecrets)
			require.Equal(t, sent.AutomountServiceAccountToken, got.AutomountServiceAccountToken)
			got, err = core.ServiceAccounts("default").Apply(t.Context(), applyv1.ServiceAccount("a", "default").
				WithSecrets(applyv1.ObjectReference().WithName("t")), metav1.ApplyOptions{FieldManager: "test"})
			require.NoError(t, err)
			require.Len(t, got.Secrets, 2, "merged by name")
		})
	}
}
