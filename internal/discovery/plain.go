package discovery

import "github.com/kindwright/kindwright/meta"

// apiGroups lists groups for /apis.
func apiGroups(groups []Group) []meta.APIGroup {
	out := make([]meta.APIGroup, len(groups))
	for i, g := range groups {
		out[i] = apiGroup(g)
	}
	return out
}

// apiGroup is one group with its versions, the preferred one first (VER-18).
func apiGroup(g Group) meta.APIGroup {
	out := meta.APIGroup{Name: g.Name, Versions: make([]meta.GroupVersionForDiscovery, len(g.Versions))}
	for i, v := range g.Versions {
		out.Versions[i] = meta.GroupVersionForDiscovery{GroupVersion: meta.GroupVersion{Group: g.Name, Version: v.Name}.String(), Version: v.Name}
	}
	if len(out.Versions) > 0 {
		out.PreferredVersion = out.Versions[0]
	}
	return out
}

// resourceList is the resources of a version (DISC-04), each followed by its subresources.
func resourceList(group, version string, resources []Resource) meta.APIResourceList {
	gv := meta.GroupVersion{Group: group, Version: version}
	list := meta.APIResourceList{TypeMeta: meta.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: []meta.APIResource{}}
	for _, r := range resources {
		entry := apiResource(gv, r.Plural, r.GVK, r.Verbs)
		entry.SingularName, entry.Namespaced = r.Singular, r.Namespaced
		entry.ShortNames, entry.Categories, entry.StorageVersionHash = r.ShortNames, r.Categories, r.StorageHash
		list.APIResources = append(list.APIResources, entry)
		for _, s := range r.Subresources {
			entry := apiResource(gv, r.Plural+"/"+s.Name, s.Kind, s.Verbs)
			entry.Namespaced = r.Namespaced
			list.APIResources = append(list.APIResources, entry)
		}
	}
	return list
}

// apiResource names group and version of the kind only where they are not those of the list.
func apiResource(gv meta.GroupVersion, name string, kind meta.GroupVersionKind, verbs []string) meta.APIResource {
	entry := meta.APIResource{Name: name, Kind: kind.Kind, Verbs: listed(verbs)}
	if kind.GroupVersion() != gv {
		entry.Group, entry.Version = kind.Group, kind.Version
	}
	return entry
}

// listed makes a list of verbs one that is written even when it is empty.
func listed(verbs []string) []string {
	if verbs == nil {
		return []string{}
	}
	return verbs
}
