package kube

import (
	"fmt"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/openapi"
)

// podPaths are the sources of the columns of pods, in the order of lookAt.
var podPaths = [...]string{
	"spec.containers", "spec.initContainers", "status.phase", "status.reason", "status.conditions",
	"status.initContainerStatuses", "status.containerStatuses", "metadata.deletionTimestamp",
}

func podColumns() []openapi.Column {
	return []openapi.Column{
		named(),
		made("Ready", "How many of the containers are ready.", func(v []any) any {
			p := lookAt(v)
			return fmt.Sprintf("%d/%d", p.ready, p.containers)
		}, podPaths[:]...),
		made("Status", "Where the pod is in its life, or what stands in its way.",
			func(v []any) any { return lookAt(v).reason }, podPaths[:]...),
		made("Restarts", "How often containers were started again, and when for the last time.", func(v []any) any {
			p := lookAt(v)
			if p.restarts == 0 || p.lastRestart.IsZero() {
				return strconv.FormatInt(p.restarts, 10)
			}
			return openapi.Aged{Before: fmt.Sprintf("%d (", p.restarts), Since: p.lastRestart.Truncate(time.Second), After: " ago)"}
		}, podPaths[:]...),
		aged(),
		wide(made("IP", "The address of the pod.", func(v []any) any {
			if all := words(v[0], "ip"); len(all) > 0 && all[0] != "" {
				return all[0]
			}
			return "<none>"
		}, "status.podIPs")),
		wide(or("Node", "spec.nodeName", "<none>", "Where the pod runs.")),
		wide(or("Nominated Node", "status.nominatedNodeName", "<none>", "Where the pod may run once others have gone.")),
		wide(made("Readiness Gates", "How many of the further conditions of readiness are met.", gates,
			"spec.readinessGates", "status.conditions")),
	}
}

func gates(v []any) any {
	all, met := list(v[0]), 0
	if len(all) == 0 {
		return "<none>"
	}
	for _, gate := range all {
		if isTrue(v[1], word(at(gate, "conditionType"))) {
			met++
		}
	}
	return fmt.Sprintf("%d/%d", met, len(all))
}

// podState is the state of a pod as its columns show it.
type podState struct {
	ready, containers, restarts int64
	lastRestart                 time.Time
	reason                      string
}

// lookAt computes the state from the values at podPaths. If the init containers are not done, they
// decide the state.
func lookAt(v []any) podState {
	containers, inits, conditions := list(v[0]), list(v[1]), v[4]
	p := podState{containers: int64(len(containers)), reason: word(v[2])}
	if r := word(v[3]); r != "" {
		p.reason = r
	}
	if c := condition(conditions, "PodScheduled"); at(c, "reason") == "SchedulingGated" {
		p.reason = "SchedulingGated"
	}
	sidecars := map[string]bool{}
	for _, c := range inits {
		if at(c, "restartPolicy") == "Always" {
			sidecars[word(at(c, "name"))] = true
			p.containers++
		}
	}
	var ofSidecars podState
	initializing := p.initialise(list(v[5]), len(inits), sidecars, &ofSidecars)
	if !initializing || isTrue(conditions, "Initialized") {
		p.restarts, p.lastRestart = ofSidecars.restarts, ofSidecars.lastRestart
		p.run(list(v[6]), isTrue(conditions, "Ready"))
	}
	if v[7] != nil {
		switch phase := word(v[2]); {
		case word(v[3]) == "NodeLost":
			p.reason = "Unknown"
		case phase != "Succeeded" && phase != "Failed":
			p.reason = "Terminating"
		}
	}
	return p
}

// restarted counts the restarts of a container.
func (p *podState) restarted(status any) {
	p.restarts += number(at(status, "restartCount"))
	if t, err := time.Parse(time.RFC3339, word(at(status, "lastState", "terminated", "finishedAt"))); err == nil && t.After(p.lastRestart) {
		p.lastRestart = t
	}
}

// initialise goes through the init containers up to the first that is not done, and reports whether
// there is one.
func (p *podState) initialise(statuses []any, total int, sidecars map[string]bool, ofSidecars *podState) bool {
	for i, s := range statuses {
		p.restarted(s)
		sidecar := sidecars[word(at(s, "name"))]
		if sidecar {
			ofSidecars.restarted(s)
		}
		ended, waiting := at(s, "state", "terminated"), word(at(s, "state", "waiting", "reason"))
		switch {
		case ended != nil && number(at(ended, "exitCode")) == 0:
			continue
		case sidecar && at(s, "started") == true:
			if at(s, "ready") == true {
				p.ready++
			}
			continue
		case ended != nil:
			p.reason = "Init:" + endReason(ended)
		case waiting != "" && waiting != "PodInitializing":
			p.reason = "Init:" + waiting
		default:
			p.reason = fmt.Sprintf("Init:%d/%d", i, total)
		}
		return true
	}
	return false
}

// run goes through the containers of the pod. The first one with a reason decides.
func (p *podState) run(statuses []any, podReady bool) {
	running, failed := false, ""
	for i := len(statuses) - 1; i >= 0; i-- {
		s := statuses[i]
		p.restarted(s)
		ended, waiting := at(s, "state", "terminated"), word(at(s, "state", "waiting", "reason"))
		switch {
		case waiting != "":
			p.reason = waiting
		case ended != nil:
			p.reason = endReason(ended)
			if number(at(ended, "exitCode")) != 0 {
				failed = p.reason
			}
		case at(s, "ready") == true && at(s, "state", "running") != nil:
			running = true
			p.ready++
		}
	}
	if p.reason != "Completed" {
		return
	}
	switch {
	case running && podReady:
		p.reason = "Running"
	case failed != "":
		p.reason = failed
	case running:
		p.reason = "NotReady"
	}
}

// endReason returns why a container ended.
func endReason(ended any) string {
	if reason := word(at(ended, "reason")); reason != "" {
		return reason
	}
	if signal := number(at(ended, "signal")); signal != 0 {
		return fmt.Sprintf("Signal:%d", signal)
	}
	return fmt.Sprintf("ExitCode:%d", number(at(ended, "exitCode")))
}
