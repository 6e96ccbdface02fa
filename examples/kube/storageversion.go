package kube

import (
	"fmt"
	"strings"

	apiserverv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// storageVersions are records of the versions in which servers store a resource. They are served where the
// configuration of the server asks for them. This server writes none: whoever has some, writes them.
func storageVersions(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[apiserverv1alpha1.StorageVersion]{
			cluster: c, statusKeeps: everyMetadata(),
			Kind: registry.Kind[apiserverv1alpha1.StorageVersion]{
				Rules: registry.Rules[apiserverv1alpha1.StorageVersion]{Name: checkStorageVersionName, Validate: checked(checkStorageVersion)},
				Group: apiserverv1alpha1.GroupName, Version: "v1alpha1", Plural: "storageversions", Scope: registry.ClusterScoped,
				Writes: registry.WriteRules{NoGeneration: true, RequireVersion: true}, Serving: registry.Serving{Optional: true},
				Table: registry.Table{Columns: columns(
					or("CommonEncodingVersion", "status.commonEncodingVersion", "<unset>", "The version that all servers write, if they agree."),
					made("StorageVersions", "The version that each server writes.", encodings, "status.storageVersions"),
				)},
			},
		},
	}
}

func encodings(v []any) any {
	all := list(v[0])
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = word(at(s, "apiServerID")) + "=" + word(at(s, "encodingVersion"))
	}
	return few(out, 3)
}

// checkStorageVersionName checks a name: a group, and a resource after its last dot.
func checkStorageVersionName(name string) string {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return "name must be in the form of <group>.<resource>"
	}
	if why := meta.CheckDNSSubdomain(name[:dot]); why != "" {
		return "the group segment " + why
	}
	if why := meta.CheckDNS1035Label(name[dot+1:]); why != "" {
		return "the resource segment " + why
	}
	return ""
}

// checkStorageVersion checks what servers say of themselves. The version that they agree on follows from that.
func checkStorageVersion(v *apiserverv1alpha1.StorageVersion, f *status.Fields) {
	at, servers := f.At("status"), unique{}
	for i := range v.Status.StorageVersions {
		s, one := &v.Status.StorageVersions[i], at.Child("storageVersions").Index(i)
		servers.check(one.Child("apiServerID"), s.APIServerID)
		checkServerVersions(s, one)
	}
	agreed := agreedEncoding(v.Status.StorageVersions)
	switch common, said := at.Child("commonEncodingVersion"), v.Status.CommonEncodingVersion; {
	case agreed == nil && said != nil:
		common.Invalid(*said, "must not be set while servers write different versions, or none has told its version")
	case agreed != nil && said == nil:
		common.Invalid(nil, "the common encoding version is "+*agreed)
	case agreed != nil && *agreed != *said:
		common.Invalid(*said, "the actual common encoding version is "+*agreed)
	}
	first := map[apiserverv1alpha1.StorageVersionConditionType]int{}
	for i, c := range v.Status.Conditions {
		one := at.Index(i) // as in Kubernetes, where the path lacks the name of the list
		if j, twice := first[c.Type]; twice {
			one.Child("type").Invalid(string(c.Type), fmt.Sprintf("the type of the condition is not unique, it also appears in conditions[%d]", j))
		}
		first[c.Type] = i
		isQualified(one.Child("type"), string(c.Type))
		isQualified(one.Child("status"), string(c.Status))
		if c.Reason == "" {
			one.Child("reason").Required("")
		}
		if c.Message == "" {
			one.Child("message").Required("")
		}
	}
}

// isQualified reports a text that is no name with an optional domain.
func isQualified(at status.Field, name string) {
	if why := meta.CheckQualifiedName(name); why != "" {
		at.Invalid(name, why)
	}
}

// maxListed is how much of a list stands in each message about another list.
const maxListed = 1 << 10

// checkServerVersions checks the versions of one server: it reads all that it writes or serves.
func checkServerVersions(s *apiserverv1alpha1.ServerStorageVersion, at status.Field) {
	if why := meta.CheckDNSSubdomain(s.APIServerID); why != "" {
		at.Child("apiServerID").Invalid(s.APIServerID, why)
	}
	isAPIVersion(at.Child("encodingVersion"), s.EncodingVersion)
	reads := at.Child("decodableVersions")
	for i, v := range s.DecodableVersions {
		isAPIVersion(reads.Index(i), v)
	}
	decodable, listed := setOf(s.DecodableVersions), clip.Text(fmt.Sprint(s.DecodableVersions), maxListed)
	if !decodable[s.EncodingVersion] {
		reads.Invalid(s.DecodableVersions, "decodableVersions must include encodingVersion "+s.EncodingVersion)
	}
	for i, v := range s.ServedVersions {
		one := at.Child("servedVersions").Index(i)
		isAPIVersion(one, v)
		if !decodable[v] {
			one.Invalid(v, fmt.Sprintf("individual served version : %s must be included in decodableVersions : %s", v, listed))
		}
	}
}

// isAPIVersion reports a text that is no version, with an optional group before it.
func isAPIVersion(at status.Field, text string) {
	group, version, grouped := strings.Cut(text, "/")
	if !grouped {
		group, version = "", text
	}
	var why []string
	say := func(part, problem string) {
		if problem != "" {
			why = append(why, part+" part: "+problem)
		}
	}
	if strings.Contains(version, "/") {
		at.Invalid(text, "an apiVersion is a version, with an optional group and '/' before it (e.g. 'example.com/v1')")
		return
	}
	if grouped {
		say("group", meta.CheckDNSSubdomain(group))
	}
	say("version", meta.CheckDNS1035Label(version))
	if len(why) > 0 {
		at.Invalid(text, strings.Join(why, ","))
	}
}

// agreedEncoding returns the version that all servers write, nil if there is none.
func agreedEncoding(all []apiserverv1alpha1.ServerStorageVersion) *string {
	for _, s := range all {
		if s.EncodingVersion != all[0].EncodingVersion {
			return nil
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0].EncodingVersion
}
