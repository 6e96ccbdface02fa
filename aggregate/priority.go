package aggregate

import "strings"

// priority is where a group version stands in the order of listings.
type priority struct{ group, version int32 }

// The priorities of group versions that Kubernetes has no numbers for.
var (
	ownPriority  = priority{2000, 100} // of kinds of the program
	latePriority = priority{1000, 100} // of kinds that came while the server ran
)

// priorities are the numbers that kube-apiserver gives its groups. Those that end in a dot belong to
// the domain of the server.
func priorities() map[string]int32 {
	return map[string]int32{
		"": 18000, "apps": 17800, "events.": 17750, "authentication.": 17700, "authorization.": 17600, "autoscaling": 17500,
		"batch": 17400, "certificates.": 17300, "networking.": 17200, "policy": 17100, "rbac.authorization.": 17000,
		"storage.": 16800, "storagemigration.": 16800, "apiextensions.": 16700, "admissionregistration.": 16700, "scheduling.": 16600,
		"coordination.": 16500, "node.": 16300, "discovery.": 16200, "flowcontrol.apiserver.": 16100, "internal.apiserver.": 16000,
		"resource.": 16200,
	}
}

// versionPriority is the number of a version of a group that Kubernetes has a number for.
func versionPriority(group, version string) int32 {
	switch {
	case group == "":
		return 1
	case group == "autoscaling" && version == "v2":
		return 30
	case strings.Contains(version, "alpha"):
		return 1
	case strings.Contains(version, "beta"):
		return 9
	}
	return 15
}

// priorityOf is the place of a group version of this server. late says that it came while the server
// ran.
func (a *Aggregator) priorityOf(group, version string, late bool) priority {
	switch {
	case late:
		return latePriority
	case group == a.group():
		return priority{maxGroupPriority, 1}
	}
	known := priorities()
	n, ok := known[group]
	if stem, found := strings.CutSuffix(group, "."+a.domain); !ok && found {
		n, ok = known[stem+"."]
	}
	if !ok {
		return ownPriority
	}
	return priority{n, versionPriority(group, version)}
}
