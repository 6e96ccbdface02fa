package openapi

import (
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// heading is an operation of discovery that does not belong to one group version.
type heading struct {
	path string
	operation
}

const versionInfo = "io.k8s.apimachinery.pkg.version.Info"

// headings publishes the schemas of the documents of discovery and returns the operations that read these
// documents, by the path of the Document among whose paths they are sorted. As in kube-apiserver, groups
// that clients alone have defined have none.
func (p *publisher) headings(sorted []Document) map[string][]heading {
	if len(sorted) == 0 {
		return nil
	}
	for _, s := range p.shared.discovery() {
		p.component(s.name, s.schema, s.kinds...)
	}
	out := map[string][]heading{}
	add := func(d Document, path, tag, id, description, answer string) {
		out[d.path()] = append(out[d.path()], heading{path, operation{
			method: "get", id: id, description: description, answer: answer, codes: []string{"200"}, tag: tag,
		}})
	}
	seen := map[string]bool{}
	for _, d := range sorted {
		if seen[d.Group] || d.Group != "" && !d.ofProgram() {
			continue
		}
		if d.Group == "" {
			add(d, "/api/", "core", "getCoreAPIVersions", "get available API versions", metaPackage+"APIVersions")
		} else {
			group := camelCase(d.Group)
			add(d, "/apis/"+d.Group+"/", strings.ReplaceAll(d.Group, ".", "_"), "get"+group+"APIGroup", "get information of a group", metaPackage+"APIGroup")
		}
		seen[d.Group] = true
	}
	for _, d := range sorted {
		if d.Group != "" {
			add(d, "/apis/", "apis", "getAPIVersions", "get available API versions", metaPackage+"APIGroupList")
			break
		}
	}
	add(sorted[len(sorted)-1], "/version/", "version", "getCodeVersion", "get the version information for this server", versionInfo)
	return out
}

// discoverySchemas makes the schemas of the documents of discovery that only Swagger refers to.
func discoverySchemas() []sharedSchema {
	version := &Schema{Type: Object, Description: "What the server says about its version."}
	for _, name := range []string{
		"buildDate", "compiler", "emulationMajor", "emulationMinor", "gitCommit", "gitTreeState", "gitVersion", "goVersion",
		"major", "minCompatibilityMajor", "minCompatibilityMinor", "minor", "platform",
	} {
		version.Properties = append(version.Properties, Property{name, &Schema{Type: String}})
	}
	version.Required = []string{"buildDate", "compiler", "gitCommit", "gitTreeState", "gitVersion", "goVersion", "major", "minor", "platform"}
	return []sharedSchema{
		{metaPackage + "APIVersions", fromMeta[meta.APIVersions]("The versions of the group without a name."), v1("APIVersions")},
		{metaPackage + "APIGroup", fromMeta[meta.APIGroup]("A group and its versions."), v1("APIGroup")},
		{metaPackage + "APIGroupList", fromMeta[meta.APIGroupList]("The groups that have a name."), v1("APIGroupList")},
		{versionInfo, version, nil},
	}
}
