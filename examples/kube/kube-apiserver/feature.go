package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/feature"
)

// featureGates lists the gates of kube-apiserver 1.36, one per line, with their states since the release
// that they came in. A state is release:stage:default, with an exclamation mark if it is locked.
//
//go:embed featuregates.txt
var featureGates string

// A gate is the state of a feature in a release.
type gate struct {
	on, locked bool
	absent     bool // the release does not have it yet
}

// gates are the features of this server, by name.
type gates map[string]gate

// knownGates reads featureGates as of release 1.minor.
func knownGates(minor int) gates {
	out := gates{"AllAlpha": {}, "AllBeta": {}}
	for line := range strings.Lines(featureGates) {
		words := strings.Fields(line)
		state := gate{absent: true}
		for _, word := range words[1:] {
			parts := strings.Split(word, ":")
			if since(parts[0]) > minor {
				break
			}
			state = gate{on: strings.HasPrefix(parts[2], "on"), locked: strings.HasSuffix(parts[2], "!")}
		}
		out[words[0]] = state
	}
	return out
}

// since returns the minor release in text such as 1.30.
func since(text string) int {
	_, minor, _ := strings.Cut(text, ".")
	n, _ := strconv.Atoi(minor)
	return n
}

// newestMinor is the release that the server is like by default.
const newestMinor = 36

// minor returns the minor release to behave like.
func (o *options) minor() int {
	release := o.release()
	if release == "" {
		return newestMinor
	}
	return since(strings.TrimPrefix(release, "kube="))
}

func (g gates) names() []string {
	var out []string
	for name := range g {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Gates that this program itself has a use for. The library tests others.
const (
	gateIdentity = "APIServerIdentity"
	gateTracing  = "APIServerTracing"
	gateFlagz    = "ComponentFlagz"
	gateStatusz  = "ComponentStatusz"
	gateCBOR     = "CBORServingAndStorage"
	gateShards   = "ShardedListAndWatch"

	gateFieldSelectors    = "CustomResourceFieldSelectors"
	gateRatcheting        = "CRDValidationRatcheting"
	gateCreateByWebSocket = "AuthorizePodWebsocketUpgradeCreatePermission"
	gateStrictAddresses   = "StrictIPCIDRValidation"
	gateServiceNames      = "RelaxedServiceNameValidation"
	gateDeviceStates      = "DRAResourceClaimGranularStatusAuthorization"
	gateNodeAudiences     = "ServiceAccountNodeAudienceRestriction"
	gateNodeFeatures      = "NodeDeclaredFeatures"
	gateTopologyLabels    = "PodTopologyLabelsAdmission"
	gateTrustBundles      = "ClusterTrustBundle"
	gateEnums             = "OpenAPIEnums"
	gateMigrations        = "StorageVersionMigrator"
	gateStorageVersions   = "StorageVersionAPI"

	gateStopSignals     = "ContainerStopSignals"
	gateWorkloads       = "GenericWorkload"
	gateBundleFiles     = "ClusterTrustBundleProjection"
	gatePodCertificates = "PodCertificateRequest"
	gateMaxUnavailable  = "MaxUnavailableStatefulSet"
	gateCoordination    = "CoordinatedLeaderElection"
	gateTaintRules      = "DRADeviceTaintRules"

	gateForeignSources   = "CrossNamespaceVolumeDataSource"
	gateVolumeLimits     = "VolumeLimitScaling"
	gateMutableLocations = "MutablePVNodeAffinity"

	gateSuspendedResources = "MutablePodResourcesForSuspendedJobs"
	gateSuspendedPlaces    = "MutableSchedulingDirectivesForSuspendedJobs"

	gateForgetsNomination = "ClearingNominatedNodeNameAfterBinding"

	gateSplitLogs    = "PodLogsQuerySplitStreams"
	gateIssuerEgress = "StructuredAuthenticationConfigurationEgressSelector" // the field egressSelectorType

	gateMutatingPolicies = "MutatingAdmissionPolicy"

	gateStaticNames = "ManifestBasedAdmissionControlConfig" // policies, not webhooks
)

// usedGates are the gates that this program itself has a use for.
func usedGates() []string {
	return []string{
		gateIdentity, gateTracing, gateFlagz, gateStatusz, gateCBOR, gateShards, gateFieldSelectors, gateRatcheting, gateStaticNames,
		gateCreateByWebSocket, gateStrictAddresses, gateNodeAudiences, gateNodeFeatures, gateTrustBundles, gateMigrations, gateStorageVersions,
		gateEnums, gateTopologyLabels, gateMutatingPolicies, gateServiceNames, gateDeviceStates, gateIssuerEgress, gateSplitLogs,
		gateStopSignals, gateWorkloads, gateBundleFiles, gatePodCertificates, gateMaxUnavailable, gateCoordination, gateTaintRules,
		gateForeignSources, gateVolumeLimits, gateMutableLocations, gateSuspendedResources, gateSuspendedPlaces,
		gateForgetsNomination,
	}
}

// checkGates reads --feature-gates. Gates that the library knows are for the library. Others of
// kube-apiserver are accepted, with a warning if they would change something. Unknown gates are
// errors.
func (o *options) checkGates() (problems []error) {
	ours := map[string]bool{"AllAlpha": true, "AllBeta": true}
	for _, f := range feature.Known() {
		ours[f.Name] = f.Gate
	}
	used := usedGates()
	o.features = knownGates(o.minor())
	for _, text := range o.gates {
		for part := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(part), "kube:"), "=")
			is, known := o.features[name]
			on, err := strconv.ParseBool(value)
			switch {
			case name == "":
			case ours[name]:
				o.libraryGates = append(o.libraryGates, part)
				if known && err == nil {
					o.features[name] = gate{on: on}
				}
			case !known:
				problems = append(problems, fmt.Errorf("--feature-gates: unrecognized feature gate: %q%s", name, meant(name, o.features.names())))
			case err != nil:
				problems = append(problems, fmt.Errorf("--feature-gates: the value %q of %s is neither true nor false", value, name))
			case is.absent:
				problems = append(problems, fmt.Errorf("--feature-gates: cannot set feature gate %s to %v, feature is PreAlpha at emulated version 1.%d", name, on, o.minor()))
			case is.locked && on != is.on:
				problems = append(problems, fmt.Errorf("--feature-gates: cannot set feature gate %s to %v, feature is locked to %v", name, on, is.on))
			default:
				if on != is.on && !slices.Contains(used, name) {
					o.withoutEffectOf = append(o.withoutEffectOf, fmt.Sprintf("--feature-gates: %s=%v is accepted and has no effect", name, on))
				}
				o.features[name] = gate{on: on}
			}
		}
	}
	return problems
}

// servedVersions are the versions that this server has, by group.
func (o *options) servedVersions() map[string][]string {
	certificates := []string{"v1"}
	if o.features[gateTrustBundles].on {
		certificates = append(certificates, "v1alpha1")
	}
	if o.features[gateTrustBundles].on || o.features[gatePodCertificates].on {
		certificates = append(certificates, "v1beta1")
	}
	var migrations []string
	if o.features[gateMigrations].on {
		migrations = []string{"v1beta1"}
	}
	return map[string][]string{
		"": {"v1"}, "admissionregistration.k8s.io": {"v1", "v1beta1"}, "apps": {"v1"}, "authentication.k8s.io": {"v1"}, "authorization.k8s.io": {"v1"},
		"autoscaling": {"v1", "v2"}, "batch": {"v1"}, "certificates.k8s.io": certificates, "coordination.k8s.io": {"v1", "v1alpha2", "v1beta1"}, "discovery.k8s.io": {"v1"},
		"events.k8s.io": {"v1"}, "flowcontrol.apiserver.k8s.io": {"v1"}, "networking.k8s.io": {"v1", "v1beta1"}, "node.k8s.io": {"v1"}, "policy": {"v1"},
		"apiextensions.k8s.io": {"v1"}, "rbac.authorization.k8s.io": {"v1"}, "resource.k8s.io": {"v1", "v1alpha3", "v1beta1", "v1beta2"}, "scheduling.k8s.io": {"v1"}, "storage.k8s.io": {"v1"},
		"apiregistration.k8s.io": {"v1"}, "internal.apiserver.k8s.io": {"v1alpha1"}, "storagemigration.k8s.io": migrations,
	}
}

// checkRuntimeConfig reads --runtime-config. A version of a known group that this server does not
// have is accepted, since kube-apiserver accepts versions that existed in any release. A group that
// kube-apiserver does not have is an error.
func (o *options) checkRuntimeConfig() (problems []error) {
	served := o.servedVersions()
	var groups []string
	for group := range served {
		groups = append(groups, group)
	}
	slices.Sort(groups)
	for _, text := range o.runtimeConfig {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if _, err := feature.ParseSelection("v1=true", part); err != nil {
				problems = append(problems, fmt.Errorf("--runtime-config: %w", err))
				continue
			}
			key, _, _ := strings.Cut(part, "=")
			group, version, of := strings.Cut(key, "/") // the core group has none
			version, _, _ = strings.Cut(version, "/")
			versions, known := served[group]
			switch {
			case group == "api" || group == "v1" || !of || slices.Contains(versions, version): // a stage, the core group, or a version that is here
				o.libraryVersions = append(o.libraryVersions, part)
			case !known:
				problems = append(problems, fmt.Errorf("--runtime-config: unknown API group %q%s", group, meant(group, groups)))
			default:
				o.withoutEffectOf = append(o.withoutEffectOf, fmt.Sprintf("--runtime-config: this server has no %s/%s", group, version))
			}
		}
	}
	return problems
}

// meant returns ", did you mean …?" with the known name that is nearest to an unknown one, or "" if
// none is near.
func meant(name string, known []string) string {
	best, least := "", max(2, len(name)/4)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", best)
}

// distance counts the letters to insert, delete or replace between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
