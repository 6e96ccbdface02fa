// Package scheduler reads the configuration of schedulers, and answers what a scheduler asks of it.
//
// [Parse] reads a KubeSchedulerConfiguration with its profiles, the arguments of the plugins that
// Kubernetes has, and its extenders. [Configuration.Profile] finds the profile of a pod,
// [Configuration.PercentageOfNodes] and [Configuration.NodesToScore] say how many nodes are scored, and
// [Profile.Args] returns the arguments of a plugin. [Extender.URL] and [TLSConfig.Config] say how an
// extender is reached.
//
// Documents are YAML or JSON, of the group kubescheduler.config.k8s.io, version v1. Source: SCHED-01 to
// SCHED-31.
package scheduler
