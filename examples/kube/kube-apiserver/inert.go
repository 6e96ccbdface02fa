package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// inert is the value of a flag of the original that has no effect here. It is checked all the same:
// a command line that the original would reject is rejected.
type inert struct {
	kind string
	text string
}

// Set checks a value.
func (v *inert) Set(s string) (err error) {
	v.text = s
	switch v.kind {
	case "bool":
		_, err = strconv.ParseBool(s)
	case "int":
		_, err = strconv.ParseInt(s, 0, 64)
	case "duration":
		_, err = time.ParseDuration(s)
	}
	return err
}

// String returns the value.
func (v *inert) String() string { return v.text }

// Type names the type of the value.
func (v *inert) Type() string {
	return v.kind
}

// inertFlags are the flags of kube-apiserver 1.36 that have no effect here, by the type of their
// value.
func inertFlags() map[string]string {
	return map[string]string{
		"bool": `aggregator-reject-forwarding-redirect enable-logs-handler
			log-json-split-stream log-text-split-stream permit-address-sharing permit-port-sharing
			watch-cache`,
		"int": `delete-collection-workers lease-reuse-duration-seconds max-connection-bytes-per-sec`,
		"duration": `coordinated-leadership-lease-duration
			coordinated-leadership-renew-deadline coordinated-leadership-retry-period etcd-compaction-interval etcd-count-metric-poll-period
			etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-readycheck-timeout kubelet-timeout log-flush-frequency
			shutdown-watch-termination-grace-period storage-initialization-timeout`,
		"string": `endpoint-reconciler-type external-hostname log-json-info-buffer-size log-text-info-buffer-size
			peer-advertise-ip peer-advertise-port peer-ca-file
			show-hidden-metrics-for-version storage-backend storage-media-type vmodule`,
		"strings": `admission-control etcd-servers-overrides watch-cache-sizes`,
	}
}

// addInert adds the flags that have no effect here.
func (o *options) addInert(f *pflag.FlagSet) {
	for kind, names := range inertFlags() {
		for name := range strings.FieldsSeq(names) {
			f.Var(&inert{kind: kind}, name, "")
			if kind == "bool" {
				f.Lookup(name).NoOptDefVal = "true"
			}
		}
	}
}
