package kube

import "github.com/kindwright/kindwright/meta"

// cronJobName leaves room for the suffix of the jobs' names.
func cronJobName(name string) string {
	if why := meta.CheckDNSSubdomain(name); why != "" {
		return why
	}
	if len(name) > 52 {
		return "must be no more than 52 characters"
	}
	return ""
}
