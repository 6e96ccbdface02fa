package kube

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// S22: amounts that take a few bytes, and seconds to compute with, are refused where they come in.
func TestS22_AmountsOfManyDigits(t *testing.T) {
	s := serve(t, Options{})
	for _, amount := range []string{"1e10000000", "1E2147483647", "1e-10000000", strings.Repeat("1", 1<<20)} {
		for path, body := range map[string]string{
			"/api/v1/namespaces/default/pods":                                  `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":%q},"requests":{"cpu":"1"}}}]}}`,
			"/api/v1/namespaces/default/resourcequotas":                        `{"metadata":{"name":"a"},"spec":{"hard":{"cpu":%q}}}`,
			"/api/v1/namespaces/default/limitranges":                           `{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Container","max":{"cpu":%q},"min":{"cpu":"1"}}]}}`,
			"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities":  `{"metadata":{"name":"a"},"storageClassName":"s","capacity":%q}`,
			"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": `{"metadata":{"name":"a"},"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"A","name":"a"},"metrics":[{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":%q}}}]}}`,
		} {
			no := s.must(t, 422, "POST", path, fmt.Sprintf(body, amount))
			require.Regexp(t, "has (an exponent that is not between|more than 1000 digits)", no["message"], "%s %.20s", path, amount)
		}
	}
}

// Comparing each usage with all before it would take the square: many minutes here, and seconds for a body of 1 MiB.
func TestS22_ManyUsagesAreComparedOnce(t *testing.T) {
	var usages []certificatesv1.KeyUsage
	for i := range effort.Of(400_000) {
		usages = append(usages, certificatesv1.KeyUsage("client auth"+strconv.Itoa(i)))
	}
	f := &status.Fields{}
	checkUsages(append(usages, usages[0], certificatesv1.UsageAny, certificatesv1.UsageAny), f.At("usages"))
	duplicates := 0
	for _, problem := range f.Errors() {
		if problem.Type == meta.CauseFieldValueDuplicate {
			duplicates++
		}
	}
	require.Equal(t, 2, duplicates)
	require.Equal(t, len(usages)+3, f.Len())
}
