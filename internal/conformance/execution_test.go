package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Section "one parse" of the access design: what the server does is what it has authorized. Every
// server of this package checks that and answers 500 otherwise (Access.CheckExecution), so that each
// of its tests tells. This one has a request of each verb, in a namespace of its own.
func TestAUTHZ_WhatIsDoneIsWhatWasAuthorized(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("elsewhere")
		const path = "/apis/shop.example.com/v1/namespaces/elsewhere/widgets"
		one := `{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`
		for _, r := range []struct{ method, path, body, content string }{
			{"POST", path, one, ""},
			{"GET", path + "/a", "", ""},
			{"GET", path, "", ""},
			{"GET", path + "?fieldSelector=metadata.name%3Da", "", ""},
			{"GET", path + "?watch=1&timeoutSeconds=1", "", ""},
			{"PUT", path + "/a", one, ""},
			{"PATCH", path + "/a", `{"spec":{"size":2}}`, "application/merge-patch+json"},
			{"PATCH", path + "/a?fieldManager=m&force=1", one, "application/apply-patch+yaml"},
			{"GET", path + "/a/status", "", ""},
			{"PATCH", path + "/a/status", `{"status":{}}`, "application/merge-patch+json"},
			{"GET", "/api/v1/namespaces/elsewhere", "", ""},
			{"DELETE", path + "/a", "", ""},
			{"DELETE", path, "", ""},
		} {
			var headers []string
			if r.content != "" {
				headers = []string{"Content-Type", r.content}
			}
			answer := s.do(r.method, r.path, r.body, headers...)
			require.Less(t, answer.code, 300, "%s %s: %s", r.method, r.path, answer)
		}
	})
}
