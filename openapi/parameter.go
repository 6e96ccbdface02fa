package openapi

import (
	"cmp"

	"github.com/kindwright/kindwright/internal/json"
)

// parameter is one parameter of a path or a query.
type parameter struct {
	in, kind, description string // kind is the JSON type
}

// parameters are the path and query parameters that are published, by name. What a server reads is
// the table in internal/request/parameter.go. It also has timeout, uid, includeObject and export,
// which are not published.
//
// Source: QUERY.
var parameters = map[string]parameter{
	"name":      {"path", "string", "Name of the object."},
	"namespace": {"path", "string", "Namespace of the object."},

	"pretty":               {"query", "string", "If 'true', the output is indented."},
	"allowWatchBookmarks":  {"query", "boolean", "Whether a watch sends bookmarks: events that carry a resource version and no change."},
	"continue":             {"query", "string", "The token that the previous chunk of a list gave."},
	"fieldSelector":        {"query", "string", "Only objects whose fields match, such as metadata.name=a."},
	"labelSelector":        {"query", "string", "Only objects whose labels match, such as app=web,tier!=cache."},
	"limit":                {"query", "integer", "At most so many objects in one chunk of a list."},
	"resourceVersion":      {"query", "string", "The version that the answer may start from; see resourceVersionMatch."},
	"resourceVersionMatch": {"query", "string", "How resourceVersion is meant: Exact or NotOlderThan."},
	"sendInitialEvents":    {"query", "boolean", "Whether a watch starts with the objects that exist, followed by a bookmark."},
	"timeoutSeconds":       {"query", "integer", "How long a list or watch may take, in seconds."},
	"watch":                {"query", "boolean", "Whether to watch for changes instead of listing."},

	"dryRun":             {"query", "string", "If 'All', everything is done except storing."},
	"fieldManager":       {"query", "string", "Who makes the change, for the owners of fields. Required for apply."},
	"fieldValidation":    {"query", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."},
	"force":              {"query", "boolean", "For apply: take over fields that others own."},
	"gracePeriodSeconds": {"query", "integer", "Seconds that the object may take to end by itself; 0 means at once."},
	"orphanDependents":   {"query", "boolean", "Older form of propagationPolicy."},
	"propagationPolicy":  {"query", "string", "What happens to dependents: Orphan, Background or Foreground."},

	ignoreReadErrors: {"query", "boolean", "Removes an object that cannot be read, without finalizers, rules or plugins. Not of a collection."},
}

// ignoreReadErrors is read of every deletion, as in Kubernetes. Those of collections refuse it.
const ignoreReadErrors = "ignoreStoreReadErrorWithClusterBreakingPotential"

// The parameters of each verb, sorted by name. Every path also takes pretty. Patches must declare
// fieldValidation: kubectl looks for it to learn whether the server validates fields.
var (
	getParameters   = []string{"resourceVersion"}
	listParameters  = []string{"continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"}
	watchParameters = []string{
		"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
		"resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
	}
	writeParameters            = []string{"dryRun", "fieldManager", "fieldValidation"}
	patchParameters            = []string{"dryRun", "fieldManager", "fieldValidation", "force"}
	deleteParameters           = []string{"dryRun", "gracePeriodSeconds", ignoreReadErrors, "orphanDependents", "propagationPolicy"}
	deleteCollectionParameters = []string{
		"continue", "dryRun", "fieldSelector", "gracePeriodSeconds", ignoreReadErrors, "labelSelector", "limit", "orphanDependents",
		"propagationPolicy", "resourceVersion", "resourceVersionMatch", "timeoutSeconds",
	}
)

// namedParameters appends parameters in full, because kubectl does not resolve references to them.
// Each is encoded once, for all operations.
func (p *publisher) namedParameters(dst [][]byte, names []string) [][]byte {
	for _, name := range names {
		encoded, ok := p.parameters[name]
		if !ok {
			encoded = p.parameter(parameterTree(name))
			p.parameters[name] = encoded
		}
		dst = append(dst, encoded)
	}
	return dst
}

func (p *publisher) parameter(tree map[string]any) []byte {
	encoded, err := p.form.parameter(tree)
	p.failed = cmp.Or(p.failed, err)
	return encoded
}

func parameterTree(name string) map[string]any {
	p := parameters[name]
	tree := map[string]any{
		"name": name, "in": p.in, "description": p.description,
		"schema": map[string]any{"type": p.kind},
	}
	if p.in == "path" {
		tree["required"] = true
	}
	return tree
}

// propertyParameters appends query parameters that are described as schema properties.
func (p *publisher) propertyParameters(dst [][]byte, properties []Property) [][]byte {
	for _, property := range properties {
		undescribed := *property.Schema
		undescribed.Description = ""
		w := schemaWriter{publisher: p}
		w.usage(usage{schema: &undescribed})
		schema, err := json.DecodeTree(w.dst, json.TreeOptions{})
		p.failed = cmp.Or(p.failed, err)
		tree := map[string]any{"name": property.Name, "in": "query", "schema": schema}
		if property.Schema.Description != "" {
			tree["description"] = property.Schema.Description
		}
		dst = append(dst, p.parameter(tree))
	}
	return dst
}
