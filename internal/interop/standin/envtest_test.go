package standin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// assetsVariable in the environment names a directory with the stand-ins. If it is not set, the
// tests build them.
const assetsVariable = "KINDWRIGHT_STANDIN_ASSETS"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "standin-*")
	if err == nil && os.Getenv(assetsVariable) == "" {
		err = build(dir)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // a temporary directory
	os.Exit(code)
}

func build(dir string) error {
	command := exec.Command("make", "-C", filepath.Join("..", "..", "..", "examples", "kube"), "assets", "OUT="+dir)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make assets: %w\n%s", err, out)
	}
	return os.Setenv(assetsVariable, dir)
}

// start starts the stand-ins as envtest starts the originals.
func start(t *testing.T) (*envtest.Environment, *rest.Config) {
	t.Helper()
	environment := &envtest.Environment{BinaryAssetsDirectory: os.Getenv(assetsVariable)}
	began := time.Now()
	config, err := environment.Start()
	require.NoError(t, err)
	t.Logf("envtest.Environment.Start took %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() { require.NoError(t, environment.Stop()) })
	return environment, config
}

func TestEnvtestStartsTheStandIns(t *testing.T) {
	environment, config := start(t)
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	ns, err := kube.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.NamespaceActive, ns.Status.Phase)

	me, err := kube.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), selfReview(), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "admin", me.Status.UserInfo.Username)
	require.Contains(t, me.Status.UserInfo.Groups, "system:masters")

	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
		},
	}
	require.NoError(t, c.Create(t.Context(), d))
	require.NotEmpty(t, d.UID)

	// A user without rights may only ask who it is.
	user, err := environment.AddUser(envtest.User{Name: "ann", Groups: []string{"devs"}}, nil)
	require.NoError(t, err)
	ann, err := kubernetes.NewForConfig(user.Config())
	require.NoError(t, err)
	me, err = ann.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), selfReview(), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "ann", me.Status.UserInfo.Username)
	_, err = ann.Discovery().ServerGroups()
	require.NoError(t, err)
	_, err = ann.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)

	// An anonymous user may read the health endpoints.
	stranger := rest.AnonymousClientConfig(config)
	anyone, err := rest.HTTPClientFor(stranger)
	require.NoError(t, err)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/api/v1/namespaces": 403} {
		answer, err := anyone.Get(strings.TrimSuffix(config.Host, "/") + path)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode, path)
	}
}

func selfReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }
