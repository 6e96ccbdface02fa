package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/files"
)

// healthNames are the checks of kube-apiserver 1.36 that this server has no check of its own for.
// Monitoring looks for some of them by name. What they check needs no start here, so they pass once
// the server answers at all.
func healthNames() []string {
	return []string{
		"poststarthook/start-apiserver-admission-initializer", "poststarthook/generic-apiserver-start-informers",
		"poststarthook/priority-and-fairness-config-consumer", "poststarthook/priority-and-fairness-filter",
		"poststarthook/storage-object-count-tracker-hook", "poststarthook/storage-readiness",
		"poststarthook/start-apiextensions-informers", "poststarthook/start-apiextensions-controllers",
		"poststarthook/start-system-namespaces-controller", "poststarthook/start-service-ip-repair-controllers",
		"poststarthook/start-kubernetes-service-cidr-controller", "poststarthook/peer-endpoint-reconciler-controller",
		"poststarthook/scheduling/bootstrap-system-priority-classes",
		"poststarthook/aggregator-reload-proxy-client-cert",
		"poststarthook/start-kube-aggregator-informers", "poststarthook/apiservice-status-local-available-controller",
		"poststarthook/apiservice-status-remote-available-controller", "poststarthook/apiservice-registration-controller",
		"poststarthook/apiservice-discovery-controller", "poststarthook/kube-apiserver-autoregistration", "autoregister-completion",
		"poststarthook/apiservice-openapi-controller", "poststarthook/apiservice-openapiv3-controller",
	}
}

// expiresSoon is how long before its end a certificate counts as about to expire.
const expiresSoon = 24 * time.Hour

// reloadName is the check of kube-apiserver that stands for what reads the file of
// --encryption-provider-config again. What that finds wrong says the check kms-providers.
const reloadName = "poststarthook/start-encryption-provider-config-automatic-reload"

// healthChecks adds the names of kube-apiserver's checks.
func (o *options) healthChecks() kindwright.Option {
	names := healthNames()
	if o.encryption.Reloads() {
		names = append(names, reloadName)
	}
	var checks []health.Check
	for _, name := range names {
		checks = append(checks, health.Check{Name: name, Check: func(context.Context) error { return nil }})
	}
	return kindwright.CheckHealth(health.Health|health.Live|health.Ready, checks...)
}

// certificateCheck adds the check of the serving certificate. A new one takes a restart, so it is no
// matter of /readyz.
func certificateCheck(certificate kindwright.KeyPair) kindwright.Option {
	return kindwright.CheckHealth(health.Health|health.Live, health.Check{Name: "loopback-serving-certificate", Check: func(context.Context) error {
		return checkCertificate(certificate, time.Now())
	}})
}

// fileCheck is the check of a file that is read again when it changes. It fails while the file cannot
// be used and its last good state counts. kubernetes_healthcheck has it as a metric.
func fileCheck(flag string, healthy func() error) health.Check {
	return health.Check{Name: flag, Check: func(context.Context) error { return healthy() }}
}

// checkCertificate reports a serving certificate that has expired or soon will. One that the server
// keeps to itself is as old as the process.
func checkCertificate(names kindwright.KeyPair, now time.Time) error {
	if names.CertFile == "" {
		return nil
	}
	pair, err := files.KeyPair(names.CertFile, names.KeyFile)
	if err != nil {
		return err
	}
	switch end := pair.Leaf.NotAfter; {
	case now.After(end):
		return fmt.Errorf("the serving certificate expired at %s", end.Format(time.RFC3339))
	case now.Add(expiresSoon).After(end):
		return fmt.Errorf("the serving certificate expires at %s", end.Format(time.RFC3339))
	}
	return nil
}
