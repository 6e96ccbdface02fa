package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdictOf is the answer to a write in one line.
func verdictOf(code int, answer map[string]any) string {
	return strings.Join(refusal(code, answer), ", ")
}

// What kube-apiserver 1.36 refuses in new objects of storage.
func TestCREATE_ObjectsOfStorageAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const (
		core, group = "/api/v1/", "/apis/storage.k8s.io/v1/"
		volume      = `"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],`
		claim       = `"resources":{"requests":{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],`
	)
	for _, c := range []struct{ path, rest, verdict string }{
		{core + "persistentvolumes", `"spec":{` + volume + `"nfs":{"server":"a","path":"b"}}`, "422 Invalid, spec.nfs.path FieldValueInvalid"},
		{
			core + "persistentvolumes", `"spec":{` + volume + `"iscsi":{"targetPortal":"1.2.3.4:80","iqn":"a","lun":256,"chapAuthSession":true}}`,
			"422 Invalid, spec.iscsi.iqn FieldValueInvalid, spec.iscsi.lun FieldValueInvalid, spec.iscsi.secretRef FieldValueRequired",
		},
		{
			core + "persistentvolumes", `"spec":{` + volume + `"csi":{"driver":"a","volumeHandle":"b","nodePublishSecretRef":{"name":"A"}}}`,
			"422 Invalid, spec.csi.nodePublishSecretRef.name FieldValueInvalid, spec.csi.nodePublishSecretRef.namespace FieldValueRequired",
		},
		{core + "persistentvolumes", `"spec":{` + volume + `"local":{"path":"/a"}}`, "422 Invalid, spec.nodeAffinity FieldValueRequired"},
		{
			core + "persistentvolumes", `"spec":{` + volume + `"cephfs":{"monitors":[]},"nfs":{"server":"a","path":"/b"},"flexVolume":{"driver":""}}`,
			"422 Invalid, spec.cephFS FieldValueForbidden, spec.flexVolume.driver FieldValueRequired",
		},
		{
			core + "persistentvolumes", `"spec":{` + volume + `"hostPath":{"path":"/a","type":"b"},"storageClassName":"C","volumeAttributesClassName":""}`,
			"422 Invalid, spec.csi FieldValueRequired, spec.hostPath.type FieldValueNotSupported, spec.storageClassName FieldValueInvalid, " +
				"spec.volumeAttributesClassName FieldValueRequired",
		},
		{
			core + "persistentvolumes", `"spec":{` + volume + `"hostPath":{"path":"/"},"persistentVolumeReclaimPolicy":"Recycle"}`,
			"422 Invalid, spec.persistentVolumeReclaimPolicy FieldValueForbidden",
		},
		{
			core + "namespaces/default/persistentvolumeclaims", `"spec":{` + claim + `"dataSource":{"kind":"PersistentVolumeClaim","name":"a"},` +
				`"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"b"},"volumeAttributesClassName":"C"}`,
			"422 Invalid, spec FieldValueInvalid, spec.volumeAttributesClassName FieldValueInvalid",
		},
		{
			group + "storageclasses", `"provisioner":"a","allowedTopologies":[{"matchLabelExpressions":[{"key":"a","values":["b","c"]}]},` +
				`{"matchLabelExpressions":[{"key":"a","values":["c","b"]}]},{"matchLabelExpressions":[{"key":"/","values":[]}]}]`,
			"422 Invalid, allowedTopologies[1].matchLabelExpressions FieldValueDuplicate, allowedTopologies[2].matchLabelExpressions[0].key " +
				"FieldValueInvalid, allowedTopologies[2].matchLabelExpressions[0].values FieldValueRequired",
		},
		{
			group + "csidrivers", `"spec":{"fsGroupPolicy":"a","volumeLifecycleModes":["b"],"nodeAllocatableUpdatePeriodSeconds":9,` +
				`"tokenRequests":[{"audience":"","expirationSeconds":599},{"audience":""}]}`,
			"422 Invalid, spec.fsGroupPolicy FieldValueNotSupported, spec.nodeAllocatableUpdatePeriodSeconds FieldValueInvalid, " +
				"spec.tokenRequests[0].expirationSeconds FieldValueInvalid, spec.tokenRequests[1].audience FieldValueDuplicate, " +
				"spec.volumeLifecycleModes FieldValueNotSupported",
		},
		{
			group + "csinodes", `"spec":{"drivers":[{"name":"a","nodeID":"` + strings.Repeat("i", 256) + `","topologyKeys":["/"]}]}`,
			"422 Invalid, spec.drivers[0] FieldValueInvalid",
		},
		{group + "namespaces/default/csistoragecapacities", `"storageClassName":"a","maximumVolumeSize":"-1"`, "201 "},
		{
			group + "volumeattachments", `"spec":{"attacher":"a","nodeName":"b","source":{"inlineVolumeSpec":{` + volume + `"storageClassName":"c",` +
				`"volumeMode":"Block","persistentVolumeReclaimPolicy":"Delete","hostPath":{"path":"/a"}}}}`,
			"422 Invalid, spec.source.inlineVolumeSpec.capacity FieldValueForbidden, spec.source.inlineVolumeSpec.csi FieldValueRequired, " +
				"spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy FieldValueForbidden, " +
				"spec.source.inlineVolumeSpec.storageClassName FieldValueForbidden, spec.source.inlineVolumeSpec.volumeMode FieldValueForbidden",
		},
	} {
		require.Equal(t, c.verdict, verdictOf(s.do(t, "POST", c.path+"?dryRun=All", `{"metadata":{"name":"new"},`+c.rest+`}`)), c.rest)
	}
}

// A claim is filled from whatever the newer field names, and from what the older one names only if it is a claim or a snapshot.
func TestCREATE_ClaimsAreFilledFromWhatTheyName(t *testing.T) {
	const source = `{"apiGroup":"example.com","kind":"Thing","name":"a"}`
	for _, c := range []struct {
		asked   string
		foreign bool
		source  any
		ref     any
	}{
		{`"dataSource":` + source, false, nil, nil},
		{`"dataSourceRef":` + source, false, "a", "a"},
		{`"dataSource":{"kind":"PersistentVolumeClaim","name":"b"}`, false, "b", "b"},
		{`"dataSourceRef":{"apiGroup":"example.com","kind":"Thing","name":"a","namespace":"b"}`, false, nil, nil},
		{`"dataSourceRef":{"apiGroup":"example.com","kind":"Thing","name":"a","namespace":"b"}`, true, nil, "a"},
	} {
		s := serve(t, Options{Features: func(gate string) bool { return c.foreign && gate == gateForeignSources }})
		made := s.must(t, 201, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"new"},"spec":{`+
			`"resources":{"requests":{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],`+c.asked+`}}`)
		require.Equal(t, c.source, at(made, "spec", "dataSource", "name"), c.asked)
		require.Equal(t, c.ref, at(made, "spec", "dataSourceRef", "name"), c.asked)
	}
}

// What of an object of storage is fixed.
func TestUPDATE_ObjectsOfStorageAreKept(t *testing.T) {
	s := serve(t, Options{})
	const (
		claims, group = "/api/v1/namespaces/default/persistentvolumeclaims", "/apis/storage.k8s.io/v1/"
		volumes       = "/api/v1/persistentvolumes"
		claim         = `"resources":{"requests":{"storage":"5Gi"}},"accessModes":["ReadWriteOnce"]`
		volume        = `"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"a","volumeHandle":"b"}`
		place         = `"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"failure-domain.beta.kubernetes.io/zone",` +
			`"operator":"In","values":["z"]}]}]}}`
	)
	merge := func(path, change string) string {
		return verdictOf(s.do(t, "PATCH", path, change, "Content-Type", "application/merge-patch+json"))
	}
	for _, c := range []struct{ path, object string }{
		{claims, `{"metadata":{"name":"free"},"spec":{` + claim + `}}`},
		{claims, `{"metadata":{"name":"bound"},"spec":{` + claim + `,"volumeName":"v","volumeAttributesClassName":"a"}}`},
		{claims, `{"metadata":{"name":"old","annotations":{"volume.beta.kubernetes.io/storage-class":"sc"}},"spec":{` + claim + `}}`},
		{volumes, `{"metadata":{"name":"v"},"spec":{` + volume + `,` + place + `,"volumeAttributesClassName":"a"}}`},
		{group + "storageclasses", `{"metadata":{"name":"sc"},"provisioner":"a"}`},
		{group + "csidrivers", `{"metadata":{"name":"a"},"spec":{}}`},
		{group + "csinodes", `{"metadata":{"name":"n"},"spec":{"drivers":[{"name":"a","nodeID":"n","topologyKeys":["k"]}]}}`},
		{group + "namespaces/default/csistoragecapacities", `{"metadata":{"name":"c"},"storageClassName":"sc"}`},
		{group + "volumeattachments", `{"metadata":{"name":"va"},"spec":{"attacher":"a","nodeName":"n","source":{"persistentVolumeName":"v"}}}`},
	} {
		s.must(t, 201, "POST", c.path, c.object)
	}
	require.Equal(t, "200 ", merge(claims+"/bound/status",
		`{"status":{"phase":"Bound","capacity":{"storage":"1Gi"},"currentVolumeAttributesClassName":"a"}}`))
	for _, c := range []struct{ path, change, verdict string }{
		{claims + "/free", `{"spec":{"resources":{"requests":{"storage":"6Gi"}}}}`, "422 Invalid, spec FieldValueForbidden"},
		{claims + "/free", `{"spec":{"volumeName":"v"}}`, "200 "},
		{claims + "/free", `{"spec":{"volumeMode":"Block"}}`, "422 Invalid, spec FieldValueForbidden, volumeMode FieldValueInvalid"},
		{claims + "/bound", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`, "200 "},
		{
			claims + "/bound", `{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`,
			"422 Invalid, spec.resources.requests.storage FieldValueForbidden",
		},
		{claims + "/bound", `{"spec":{"resources":{"requests":{"storage":"2Gi"},"limits":{"storage":"2Gi"}}}}`, "422 Invalid, spec FieldValueForbidden"},
		{claims + "/bound", `{"spec":{"volumeAttributesClassName":"b"}}`, "200 "},
		{claims + "/bound", `{"spec":{"volumeAttributesClassName":null}}`, "422 Invalid, spec.volumeAttributesClassName FieldValueForbidden"},
		{claims + "/old", `{"spec":{"storageClassName":"sc"}}`, "200 "},
		{claims + "/old", `{"spec":{"storageClassName":"other"}}`, "422 Invalid, spec FieldValueForbidden"},
		{
			claims + "/old", `{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"other"}}}`,
			"422 Invalid, metadata.annotations.volume.beta.kubernetes.io/storage-class FieldValueInvalid",
		},
		{
			claims + "/bound/status", `{"status":{"allocatedResources":{"cpu":"1"},"allocatedResourceStatuses":{"storage":"a"},"capacity":{"storage":"-1"}}}`,
			"422 Invalid, status.allocatedResourceStatuses FieldValueNotSupported, status.allocatedResources FieldValueNotSupported, " +
				"status.capacity[storage] FieldValueInvalid",
		},
		{volumes + "/v", `{"spec":{"csi":{"controllerExpandSecretRef":{"name":"a","namespace":"b"}}}}`, "200 "},
		{volumes + "/v", `{"spec":{"csi":{"readOnly":true}}}`, "422 Invalid, spec.persistentvolumesource FieldValueForbidden"},
		{volumes + "/v", `{"spec":{"volumeMode":"Block"}}`, "422 Invalid, volumeMode FieldValueInvalid"},
		{volumes + "/v", `{"spec":{"volumeAttributesClassName":null}}`, "422 Invalid, spec.volumeAttributesClassName FieldValueForbidden"},
		{volumes + "/v", `{"spec":{` + strings.Replace(place, `"z"`, `"y"`, 1) + `}}`, "422 Invalid, nodeAffinity FieldValueInvalid"},
		{volumes + "/v", `{"spec":{` + strings.Replace(place, "failure-domain.beta", "topology", 1) + `}}`, "200 "},
		{
			group + "storageclasses/sc", `{"provisioner":"b","parameters":{"a":"b"}}`,
			"422 Invalid, parameters FieldValueInvalid, provisioner FieldValueInvalid",
		},
		{
			group + "csidrivers/a", `{"spec":{"attachRequired":false,"volumeLifecycleModes":["Ephemeral"]}}`,
			"422 Invalid, spec.attachedRequired FieldValueInvalid, spec.volumeLifecycleModes FieldValueInvalid",
		},
		{group + "csinodes/n", `{"spec":{"drivers":[{"name":"a","nodeID":"n","topologyKeys":["k"],"allocatable":{"count":1}}]}}`, "200 "},
		{group + "csinodes/n", `{"spec":{"drivers":[{"name":"a","nodeID":"m","topologyKeys":["k"]}]}}`, "422 Invalid, spec.drivers FieldValueInvalid"},
		{
			group + "namespaces/default/csistoragecapacities/c", `{"storageClassName":"b","nodeTopology":{}}`,
			"422 Invalid, nodeTopology FieldValueInvalid, storageClassName FieldValueInvalid",
		},
		{
			group + "volumeattachments/va/status", `{"status":{"attachError":{"errorCode":-1}}}`,
			"422 Invalid, status.attachError.errorCode FieldValueInvalid",
		},
	} {
		require.Equal(t, c.verdict, merge(c.path+"?dryRun=All", c.change), c.change)
	}
}

// The generation of a CSI driver counts its changes. The fields of features that are off do not come into being.
func TestMETA_12_TheGenerationOfADriver(t *testing.T) {
	s := serve(t, Options{})
	const drivers = "/apis/storage.k8s.io/v1/csidrivers"
	made := s.must(t, 201, "POST", drivers, `{"metadata":{"name":"a"},"spec":{"preventPodSchedulingIfMissing":true}}`)
	require.Nil(t, at(made, "metadata", "generation"))
	require.Nil(t, at(made, "spec", "preventPodSchedulingIfMissing"))
	for _, c := range []struct {
		change     string
		generation int64
	}{{`{"spec":{"podInfoOnMount":true}}`, 1}, {`{"metadata":{"labels":{"a":"b"}}}`, 1}, {`{"spec":{"podInfoOnMount":false}}`, 2}} {
		now := s.must(t, 200, "PATCH", drivers+"/a", c.change, "Content-Type", "application/merge-patch+json")
		require.EqualValues(t, c.generation, at(now, "metadata", "generation"), c.change)
	}
}

// When the phase of a volume changes, so does the time of the change, unless a controller says it.
func TestUPDATE_TheTimeOfAPhase(t *testing.T) {
	s := serve(t, Options{})
	const volumes, time = "/api/v1/persistentvolumes", "2026-01-01T00:00:00Z"
	patch := func(change string) any {
		now := s.must(t, 200, "PATCH", volumes+"/v/status", `{"status":`+change+`}`, "Content-Type", "application/merge-patch+json")
		return at(now, "status", "lastPhaseTransitionTime")
	}
	s.must(t, 201, "POST", volumes, `{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],`+
		`"hostPath":{"path":"/a"}}}`)
	require.Equal(t, time, patch(`{"phase":"Bound","lastPhaseTransitionTime":"`+time+`"}`))
	require.Equal(t, time, patch(`{"lastPhaseTransitionTime":null}`))
	require.NotContains(t, []any{time, nil}, patch(`{"phase":"Released","lastPhaseTransitionTime":null}`))
}

// Claims without a class get that of old installations, too, which another annotation marks as the default.
func TestClaimsGetTheClassOfOldInstallations(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"old","annotations":{"storageclass.beta.kubernetes.io/is-default-class":"true"}},"provisioner":"example.com/p"}`)
	made := s.must(t, 201, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"c"},"spec":{"resources":{"requests":{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"]}}`)
	require.Equal(t, "old", at(made, "spec", "storageClassName"))
}
