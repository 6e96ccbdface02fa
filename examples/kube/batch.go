package kube

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// jobsLeavePods is for clients that delete jobs and may expect their pods to go.
const jobsLeavePods = "the pods of a job stay when it is deleted without a propagationPolicy; " +
	"set propagationPolicy=Background to delete them too, or propagationPolicy=Orphan to keep them without this warning"

// batch are the kinds of the group of that name.
func batch(c *cluster) []registry.Definition {
	const jobContainers = "spec.jobTemplate." + podContainers
	return []registry.Definition{
		kind[batchv1.Job]{
			cluster: c,
			Kind: registry.Kind[batchv1.Job]{
				Rules: registry.Rules[batchv1.Job]{
					Complete: c.completeJob, Validate: checked(c.checkJob),
					ValidateUpdate: byPath(c.checkJobStatus, c.checkJobUpdate),
				},

				Group: "batch", Version: "v1", Plural: "jobs", Names: registry.Names{Categories: []string{"all"}},
				Deletion: registry.Deletion{Policy: meta.DeletePropagationOrphan, Turn: workloads, Warning: jobsLeavePods},
				Table: registry.Table{Columns: columns(append([]openapi.Column{
					made("Status", "Where the job is in its life.", jobState, "status.conditions", "metadata.deletionTimestamp"),
					made("Completions", "How often it has succeeded, of how often it should.", jobCompletions,
						"status.succeeded", "spec.completions", "spec.parallelism"),
					made("Duration", "How long it has taken.", jobDuration, "status.startTime", "status.completionTime"),
				}, templateColumns(podContainers, selectorColumn("spec.selector"))...)...)},
			},
			fill: fillJob, reads: map[string]reading{"status.successful": numberAt("status", "succeeded")},
		},
		kind[batchv1.CronJob]{cluster: c, Kind: registry.Kind[batchv1.CronJob]{
			Rules: registry.Rules[batchv1.CronJob]{
				Validate: checked(c.checkCronJob), Name: cronJobName, ValidateUpdate: updated(checkZone),
				ValidateCreate: func(_ context.Context, obj *batchv1.CronJob, f *status.Fields) { checkZone(obj, nil, f) },
			},

			Group: "batch", Version: "v1", Plural: "cronjobs",
			Names: registry.Names{ShortNames: []string{"cj"}, Categories: []string{"all"}},
			Table: registry.Table{Columns: columns(append([]openapi.Column{
				text("Schedule", "spec.schedule", "When a job is started."),
				or("Timezone", "spec.timeZone", "<none>", "Where the schedule's times are meant."),
				made("Suspend", "Whether no job is started.", suspended, "spec.suspend"),
				counted("Active", "status.active", "How many jobs are running."),
				made("Last Schedule", "How long ago a job was started.", func(v []any) any {
					if v[0] == nil {
						return "<none>"
					}
					return since(v[0])
				}, "status.lastScheduleTime"),
			}, templateColumns(jobContainers, selectorColumn("spec.jobTemplate.spec.selector"))...)...)},
		}, fill: fillCronJob},
	}
}

func suspended(v []any) any {
	switch v[0] {
	case true:
		return "True"
	case false:
		return "False"
	}
	return "<unset>"
}

func jobState(v []any) any {
	for _, c := range []struct{ condition, says string }{{"Complete", "Complete"}, {"Failed", "Failed"}, {"", "Terminating"}, {"Suspended", "Suspended"}, {"FailureTarget", "FailureTarget"}, {"SuccessCriteriaMet", "SuccessCriteriaMet"}} {
		if c.condition == "" && v[1] != nil || c.condition != "" && isTrue(v[0], c.condition) {
			return c.says
		}
	}
	return "Running"
}

func jobCompletions(v []any) any {
	succeeded, parallel := number(v[0]), number(v[2])
	switch {
	case v[1] != nil:
		return fmt.Sprintf("%d/%d", succeeded, number(v[1]))
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", succeeded, parallel)
	}
	return fmt.Sprintf("%d/1", succeeded)
}

func jobDuration(v []any) any {
	start, err := time.Parse(time.RFC3339, word(v[0]))
	if err != nil {
		return ""
	}
	if end, err := time.Parse(time.RFC3339, word(v[1])); err == nil {
		return table.Age(end.Sub(start))
	}
	return openapi.Aged{Since: start}
}
