package mixin

import "strings"

// A rule records the result of an expression as a series.
type rule struct {
	record string
	labels map[string]string // added to those of the result
	expr   string
}

// The expressions below are the API server's recording rules of kubernetes-mixin, whose authors
// publish them under the Apache License 2.0:
//
//	https://github.com/kubernetes-monitoring/kubernetes-mixin/tree/master/rules
//
// Names in capitals stand for the values of its configuration.
var config = strings.NewReplacer(
	"JOB", `job="kube-apiserver"`,
	"NOSTREAM", `subresource!~"proxy|attach|log|exec|portforward"`,
	"READ", `verb=~"LIST|GET"`,
	"WRITE", `verb=~"POST|PUT|PATCH|DELETE"`,
	"LE1", `le=~"1(\\.0)?"`,
	"LE5", `le=~"5(\\.0)?"`,
	"LE30", `le=~"30(\\.0)?"`,
	"BUCKET", "apiserver_request_sli_duration_seconds_bucket",
	"COUNT", "apiserver_request_sli_duration_seconds_count",
)

const readBurnRate = `
((
  sum by (cluster) (rate(COUNT{JOB,READ,NOSTREAM}[WINDOW]))
  -
  (
    (sum by (cluster) (rate(BUCKET{JOB,READ,NOSTREAM,scope=~"resource|",LE1}[WINDOW])) or vector(0))
    + sum by (cluster) (rate(BUCKET{JOB,READ,NOSTREAM,scope="namespace",LE5}[WINDOW]))
    + sum by (cluster) (rate(BUCKET{JOB,READ,NOSTREAM,scope="cluster",LE30}[WINDOW]))
  )
) + sum by (cluster) (rate(apiserver_request_total{JOB,READ,code=~"5.."}[WINDOW])))
/ sum by (cluster) (rate(apiserver_request_total{JOB,READ}[WINDOW]))`

const writeBurnRate = `
((
  sum by (cluster) (rate(COUNT{JOB,WRITE,NOSTREAM}[WINDOW]))
  - sum by (cluster) (rate(BUCKET{JOB,WRITE,NOSTREAM,LE1}[WINDOW]))
) + sum by (cluster) (rate(apiserver_request_total{JOB,WRITE,code=~"5.."}[WINDOW])))
/ sum by (cluster) (rate(apiserver_request_total{JOB,WRITE}[WINDOW]))`

const (
	buckets30d = "cluster_verb_scope_le:BUCKET:increase30d"
	counts30d  = "cluster_verb_scope:COUNT:increase30d"

	slowReads = `
sum by (cluster) (` + counts30d + `{READ})
- (
  sum by (cluster) (` + buckets30d + `{READ,scope=~"resource|",LE1} or vector(0))
  + sum by (cluster) (` + buckets30d + `{READ,scope="namespace",LE5} or vector(0))
  + sum by (cluster) (` + buckets30d + `{READ,scope="cluster",LE30} or vector(0))
)`
	slowWrites = `
sum by (cluster) (` + counts30d + `{WRITE}) - sum by (cluster) (` + buckets30d + `{WRITE,LE1} or vector(0))`
)

// rules returns all rules, in an order in which those that others read come first.
func rules() []rule {
	var all []rule
	add := func(record, labels, expr string) {
		r := rule{config.Replace(record), map[string]string{}, config.Replace(expr)}
		for pair := range strings.FieldsSeq(labels) {
			name, value, _ := strings.Cut(pair, "=")
			r.labels[name] = value
		}
		all = append(all, r)
	}
	for _, window := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} {
		add("apiserver_request:burnrate"+window, "verb=read", strings.ReplaceAll(readBurnRate, "WINDOW", window))
		add("apiserver_request:burnrate"+window, "verb=write", strings.ReplaceAll(writeBurnRate, "WINDOW", window))
	}
	for verb, selector := range map[string]string{"read": "READ", "write": "WRITE"} {
		add("cluster_quantile:apiserver_request_sli_duration_seconds:histogram_quantile", "quantile=0.99 verb="+verb,
			`histogram_quantile(0.99, sum by (cluster, le, resource) (rate(BUCKET{JOB,`+selector+`,NOSTREAM}[5m]))) > 0`)
		add("code_resource:apiserver_request_total:rate5m", "verb="+verb,
			`sum by (cluster,code,resource) (rate(apiserver_request_total{JOB,`+selector+`}[5m]))`)
	}
	for _, code := range []string{"2..", "3..", "4..", "5.."} {
		add("code_verb:apiserver_request_total:increase1h", "",
			`sum by (cluster, code, verb) (increase(apiserver_request_total{JOB,verb=~"LIST|GET|POST|PUT|PATCH|DELETE",code=~"`+code+`"}[1h]))`)
	}
	add("code_verb:apiserver_request_total:increase30d", "", `avg_over_time(code_verb:apiserver_request_total:increase1h[30d]) * 24 * 30`)
	add("code:apiserver_request_total:increase30d", "verb=read", `sum by (cluster, code) (code_verb:apiserver_request_total:increase30d{READ})`)
	add("code:apiserver_request_total:increase30d", "verb=write", `sum by (cluster, code) (code_verb:apiserver_request_total:increase30d{WRITE})`)
	add("cluster_verb_scope_le:BUCKET:increase1h", "", `sum by (cluster, verb, scope, le) (increase(BUCKET[1h]))`)
	add(buckets30d, "", `sum by (cluster, verb, scope, le) (avg_over_time(cluster_verb_scope_le:BUCKET:increase1h[30d]) * 24 * 30)`)
	add("cluster_verb_scope:COUNT:increase1h", "", `sum by (cluster, verb, scope) (cluster_verb_scope_le:BUCKET:increase1h{le="+Inf"})`)
	add(counts30d, "", `sum by (cluster, verb, scope) (`+buckets30d+`{le="+Inf"})`)
	const errors, answers = `sum by (cluster) (code:apiserver_request_total:increase30d{VERBcode=~"5.."} or vector(0))`, `sum by (cluster) (code:apiserver_request_total:increase30d{VERB})`
	for verb, slow := range map[string]string{"all": "(" + slowWrites + ") + (" + slowReads + ")", "read": slowReads, "write": slowWrites} {
		of := `verb="` + verb + `",`
		if verb == "all" {
			of = ""
		}
		add("apiserver_request:availability30d", "verb="+verb, strings.ReplaceAll("1 - ("+slow+" + "+errors+") / "+answers, "VERB", of))
	}
	return all
}
