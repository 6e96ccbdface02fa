package main

import (
	"errors"
	"fmt"
	"slices"
)

// The controllers of kube-controller-manager that can run here, by the names that they have there.
const (
	namespaceController = "namespace"
	garbageCollector    = "garbage-collector"
	roleAggregation     = "clusterrole-aggregation"
)

// runs reports whether a controller is enabled. By default none is: a kube-apiserver runs no
// controllers, and tests written for one do their work themselves.
func (o *options) runs(controller string) bool { return slices.Contains(o.controllers, controller) }

// checkControllers rejects unknown names.
func (o *options) checkControllers() (problems []error) {
	for _, name := range o.controllers {
		if name != namespaceController && name != garbageCollector && name != roleAggregation {
			problems = append(problems, fmt.Errorf("--controllers: unknown controller %q; known controllers are %s, %s and %s", name,
				namespaceController, garbageCollector, roleAggregation))
		}
	}
	if !o.collect && o.runs(garbageCollector) {
		problems = append(problems, errors.New("--enable-garbage-collector=false and --controllers=garbage-collector contradict each other"))
	}
	return problems
}
