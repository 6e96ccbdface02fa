// Command extension is an extension API server: a fleet of ships behind the aggregator of a Kubernetes
// cluster. In a cluster it takes no flags, and prints what the cluster needs:
//
//	extension --manifests --image registry.example.com/fleet:1 | kubectl apply -f -
//
// Outside of one it writes an APIService and a Service that lead to it:
//
//	go run ./examples/extension --kubeconfig ~/.kube/config --listen :6443 --data-dir ./data --advertise 192.0.2.7:6443
//	echo '{"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "santa-maria"}}' | kubectl create -f -
//	kubectl get ships
//	kubectl scale ship santa-maria --replicas=40
//	kubectl get --raw /apis/fleet.example.com/v1/namespaces/default/ships/santa-maria/log
//
// Users and roles are those of the cluster.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/kindwright/kindwright/extension"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

func main() { program().Main() }

func program() extension.Program {
	return extension.Program{
		Config: extension.Config{Name: "fleet", Kinds: []registry.Definition{ships, ports, distances}},
		Open:   func(dir string) (storage.Backend, error) { return bbolt.Open(filepath.Join(dir, "fleet.db")) },
	}
}

const group, version = "fleet.example.com", "v1"

// Ship is a ship. Its crew can be scaled.
type Ship struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		Crew int32  `json:"crew,omitempty" minimum:"0" column:"Crew" doc:"How many sail it."`
		Port string `json:"port,omitempty" selectable:"" column:"Port" doc:"The port that it belongs to."`
	} `json:"spec,omitempty"`
	Status struct {
		Crew int32 `json:"crew,omitempty" doc:"How many are aboard."`
	} `json:"status,omitempty"`
}

// LogOptions say which part of a log is wanted.
type LogOptions struct {
	Follow bool `json:"follow,omitempty"`
}

var ships = registry.Kind[Ship]{
	Group: group, Version: version, Plural: "ships", Doc: "A ship of the fleet.",
	Subresources: []registry.Endpoint{
		registry.ScaleSubresource{SpecReplicasPath: ".spec.crew", StatusReplicasPath: ".status.crew"},
		registry.Stream[Ship, LogOptions]{Name: "log", Open: openLog},
	},
}

// openLog sends the log of a ship, one line each second for those who follow it.
func openLog(ctx context.Context, call *registry.Call[Ship], o *LogOptions) (io.ReadCloser, error) {
	return registry.Writing(ctx, func(ctx context.Context, w io.Writer) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 1; ; n++ {
			if _, err := fmt.Fprintf(w, "%s: entry %d, %d aboard\n", call.Object.Name, n, call.Object.Status.Crew); err != nil || !o.Follow {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}), nil
}

// Port is where ships belong.
type Port struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec Place `json:"spec"`
}

// Place is a place on the map, in nautical miles.
type Place struct {
	East  int32 `json:"east"`
	North int32 `json:"north"`
}

var ports = registry.Kind[Port]{Group: group, Version: version, Plural: "ports", Scope: registry.ClusterScoped, Doc: "A port."}

// Distance says how far two places are from each other. It is computed and not stored.
type Distance struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	From  Place `json:"from"`
	To    Place `json:"to"`
	Miles int32 `json:"miles,omitempty" doc:"Filled in by the server."`
}

var distances = registry.VirtualKind[Distance]{
	Group: group, Version: version, Plural: "distances",
	Run: func(_ context.Context, d *Distance) error {
		d.Miles = int32(math.Round(math.Hypot(float64(d.To.East)-float64(d.From.East), float64(d.To.North)-float64(d.From.North))))
		return nil
	},
}
