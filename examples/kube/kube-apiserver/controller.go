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
)

// runs tells whether a controller is wanted. None is by default: nothing of the kind runs in a kube-apiserver, and tests that
// are written for one take off themselves what the controllers would.
func (o *options) runs(controller string) bool { return slices.Contains(o.controllers, controller) }

// checkControllers refuses names that nothing here has.
func (o *options) checkControllers() (problems []error) {
	for _, name := range o.controllers {
		if name != namespaceController && name != garbageCollector {
			problems = append(problems, fmt.Errorf("--controllers: unknown controller %q; known are %s and %s", name, namespaceController, garbageCollector))
		}
	}
	if !o.collect && o.runs(garbageCollector) {
		problems = append(problems, errors.New("--enable-garbage-collector=false and --controllers=garbage-collector contradict each other"))
	}
	return problems
}
