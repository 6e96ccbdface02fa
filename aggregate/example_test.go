package aggregate_test

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// A server that can answer for others makes an APIService for each of its own group versions.
func Example() {
	certificate, err := selfsigned.Certificate() // a program has one of an authority that its back ends trust
	if err != nil {
		fmt.Println(err)
		return
	}
	behind, err := aggregate.New(aggregate.Config{
		Certificate: func() (*tls.Certificate, error) { return &certificate, nil },
		Resolver: aggregate.ResolverFunc(func(_ context.Context, namespace, name string, _ int32) (string, error) {
			return name + "." + namespace + ".example.dev:443", nil // by default, Services of the server count
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()), kindwright.Aggregate(behind), kindwright.LogTo(logr.Discard()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer func() { stop(); srv.Wait() }()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	services := registry.From[aggregate.APIService](srv.Engine())
	for s, err := range services.List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s.Name, s.Spec.GroupPriorityMinimum, s.Status.Conditions[0].Reason)
	}

	// Another server has the boats from now on, as soon as it answers.
	boats := &aggregate.APIService{Spec: aggregate.APIServiceSpec{
		Group: "boats.example.dev", Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 15,
		Service: &aggregate.ServiceReference{Namespace: "harbour", Name: "boats"}, InsecureSkipTLSVerify: true, CABundle: []byte("…"),
	}}
	boats.ObjectMeta = meta.ObjectMeta{Name: "v1.boats.example.dev"}
	_, err = services.Create(ctx, boats)
	fmt.Println(err)
	// Output:
	// v1. 18000 Local
	// v1.authentication.k8s.io 17700 Local
	// v1.authorization.k8s.io 17600 Local
	// v1.coordination.k8s.io 16500 Local
	// v1.events.k8s.io 17750 Local
	// APIService.apiregistration.k8s.io "v1.boats.example.dev" is invalid: spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present
}
