package extension_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/extension"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// Ship is a kind of the example.
type Ship struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

// The manifests hold all that a cluster needs. --manifests of a Program prints them.
func ExampleWriteManifests() {
	ships := registry.Kind[Ship]{Group: "fleet.example.com", Version: "v1", Plural: "ships"}
	var out bytes.Buffer
	err := extension.WriteManifests(&out, extension.Config{Name: "fleet", Kinds: []registry.Definition{ships}}, extension.Deployment{Image: "fleet:1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "kind: ") {
			fmt.Print(line)
		}
	}
	// Output:
	// kind: ServiceAccount
	// kind: ClusterRoleBinding
	// kind: RoleBinding
	// kind: ClusterRole
	// kind: ClusterRoleBinding
	// kind: Role
	// kind: RoleBinding
	// kind: PersistentVolumeClaim
	// kind: Deployment
	// kind: Service
	// kind: PodDisruptionBudget
	// kind: APIService
}
