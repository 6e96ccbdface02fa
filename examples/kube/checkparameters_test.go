package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Kubernetes tests in pkg/apis/storage/validation: the maker of volumes has a qualified name, in
// classes of attributes, too, and is told a bounded amount.
func TestCREATE_ParametersOfClassesAreBounded(t *testing.T) {
	s := serve(t, Options{})
	many := map[string]string{}
	for i := range 513 {
		many[fmt.Sprint(i)] = ""
	}
	for plural, driver := range map[string]string{"storageclasses": "provisioner", "volumeattributesclasses": "driverName"} {
		path := "/apis/storage.k8s.io/v1/" + plural
		create := func(code int, name, by string, parameters map[string]string) string {
			body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}, driver: by, "parameters": parameters})
			require.NoError(t, err)
			return word(s.must(t, code, "POST", path, string(body))["message"])
		}
		few := map[string]string{"a": "b"}
		require.Empty(t, create(201, "good", "example.com/driver", few))
		require.Empty(t, create(201, "upper", "Example.com/Driver", few))
		require.Contains(t, create(422, "bad", "a/b/c", few), driver+": Invalid value")
		require.Contains(t, create(422, "bad", "", few), driver+": Required value")
		require.Contains(t, create(422, "bad", "d", map[string]string{"": "b"}), `parameters: Invalid value: "": field can not be empty.`)
		require.Contains(t, create(422, "bad", "d", many), "parameters: Too long: may not be more than 512 bytes")
		require.Contains(t, create(422, "bad", "d", map[string]string{"a": strings.Repeat("b", 256<<10)}), "parameters: Too long: may not be more than 262144 bytes")
	}
}
