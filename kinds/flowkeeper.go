package kinds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// The field managers of what the server writes.
const (
	flowProducer = "api-priority-and-fairness-config-producer-v1"
	flowConsumer = "api-priority-and-fairness-config-consumer-v1"
)

// flowKeeper sees to the mandatory and suggested objects, and to the conditions of schemas.
type flowKeeper struct {
	schemas, levels meta.GroupVersionResource
	domain          string
}

// keepAll creates and repairs the objects. It is a start hook.
func (k flowKeeper) keepAll(ctx context.Context, o registry.Objects) error {
	ctx = authn.WithUser(ctx, policyUser)
	must, should := flowcontrol.Mandatory(), flowcontrol.Suggested(k.domain)
	var work []func() error
	for i, s := range slices.Concat(must.Schemas, should.Schemas) {
		work = append(work, func() error {
			return keepFlow(ctx, o, k.schemas, s.Name, &s.Spec, i < len(must.Schemas), (*flowcontrol.FlowSchemaSpec).Default, sameSpec[flowcontrol.FlowSchemaSpec])
		})
	}
	for i, l := range slices.Concat(must.Levels, should.Levels) {
		work = append(work, func() error {
			return keepFlow(ctx, o, k.levels, l.Name, &l.Spec, i < len(must.Levels), (*flowcontrol.LevelSpec).Default, sameLevel)
		})
	}
	problems := make([]error, len(work))
	var group sync.WaitGroup
	for i, one := range work {
		group.Go(func() { problems[i] = one() })
	}
	group.Wait()
	return errors.Join(problems...)
}

// flowObject is an object of either kind.
type flowObject[S any] struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   S                  `json:"spec"`
	Status flowcontrol.Status `json:"status,omitzero"`
}

// keepFlow creates an object, or repairs it: always if it is mandatory, and otherwise while its
// annotation says so. An object without the annotation is the server's while nobody has changed its
// spec.
func keepFlow[S any](ctx context.Context, o registry.Objects, of meta.GroupVersionResource, name string, spec *S, mandatory bool, fill func(*S), same func(a, b *S) bool) error {
	by := registry.WriteOptions{FieldManager: flowProducer}
	for range maxKeepTries {
		at := registry.Target{Resource: of, Name: name}
		have := flowObject[S]{ObjectMeta: meta.Named("", name)}
		entry, err := o.Get(ctx, at, registry.ListRequest{})
		missing := status.IsNotFound(err)
		switch {
		case missing:
		case err != nil:
			return err
		default:
			if err := json.Unmarshal(entry.AppendJSON(nil), &have); err != nil {
				return err
			}
			fill(&have.Spec)
		}
		value, annotated := have.Annotations[flowcontrol.AnnotationAutoUpdate]
		ours := mandatory || missing || value == "true" || !annotated && have.Generation == 1
		want := fmt.Sprint(ours)
		if !missing && value == want && (!ours || same(&have.Spec, spec)) {
			return nil
		}
		if ours {
			have.Spec = *spec
		}
		if have.Annotations == nil {
			have.Annotations = map[string]string{}
		}
		have.Annotations[flowcontrol.AnnotationAutoUpdate] = want
		body, err := json.Marshal(have)
		if err != nil {
			return err
		}
		if missing {
			at.Name = ""
			_, err = o.Create(ctx, at, body, by)
		} else {
			_, err = o.Update(ctx, at, body, by)
		}
		if err == nil || !status.IsConflict(err) && !status.IsAlreadyExists(err) && !status.IsNotFound(err) {
			return err
		}
	}
	return nil // others write it as often; their last write is reviewed
}

func sameSpec[S any](a, b *S) bool {
	x, err := json.Marshal(a)
	y, problem := json.Marshal(b)
	return err == nil && problem == nil && string(x) == string(y)
}

// sameLevel leaves out what the exempt level lends, which is its administrator's.
func sameLevel(have, want *flowcontrol.LevelSpec) bool {
	if want.Exempt == nil || have.Exempt == nil {
		return sameSpec(have, want)
	}
	without := *have
	without.Exempt = want.Exempt
	return sameSpec(&without, want)
}

// run reviews all objects after each change, until ctx ends.
func (k flowKeeper) run(ctx context.Context, o registry.Objects) {
	e := o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	ctx = authn.WithUser(ctx, policyUser)
	changed := make(chan struct{}, 1)
	written := map[string]time.Time{} // when a schema's condition was
	var followers sync.WaitGroup
	defer followers.Wait()
	for _, of := range []meta.GroupVersionResource{k.schemas, k.levels} {
		followers.Go(func() { follow(ctx, e, of, changed) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		later, err := k.review(ctx, o, written)
		if later {
			time.AfterFunc(betweenConditions, func() { signal(changed) })
		}
		if err != nil && ctx.Err() == nil {
			e.Logger().Error(err, "failed to keep flow schemas and priority levels; retrying")
			_ = pause.For(ctx, firstRetry)
			signal(changed)
		}
	}
}

// follow signals each change of the objects of a resource.
func follow(ctx context.Context, e *engine.Engine, of meta.GroupVersionResource, changed chan struct{}) {
	for ctx.Err() == nil {
		for _, err := range e.Watch(ctx, registry.Target{Resource: of}, registry.WatchRequest{}) {
			if err != nil {
				break
			}
			signal(changed)
		}
		_ = pause.For(ctx, firstRetry)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a signal already
	}
}

// betweenConditions is how long the condition of a schema stays as this server has written it: others
// may see it differently, and write it, too.
const betweenConditions = 10 * time.Second

// review reports whether something has to be written later.
func (k flowKeeper) review(ctx context.Context, o registry.Objects, written map[string]time.Time) (later bool, err error) {
	if err := k.keepAll(ctx, o); err != nil {
		return false, err
	}
	list, err := o.List(ctx, registry.Target{Resource: k.schemas}, registry.ListRequest{})
	if err != nil {
		return false, err
	}
	present := map[string]bool{}
	for entry, err := range list.Items {
		if err != nil {
			return later, err
		}
		present[entry.Name()] = true
		var s flowcontrol.FlowSchema
		if json.Unmarshal(entry.AppendJSON(nil), &s) != nil {
			continue
		}
		want, err := k.conditionOf(ctx, o, &s)
		switch {
		case err != nil:
			return later, err
		case want == nil:
		case time.Since(written[s.Name]) < betweenConditions:
			later = true
		default:
			if err := k.write(ctx, o, &s, want); err != nil {
				return later, err
			}
			written[s.Name] = time.Now()
		}
	}
	maps.DeleteFunc(written, func(name string, _ time.Time) bool { return !present[name] })
	return later, nil
}

// conditionOf returns the condition that says whether the level of a schema exists, or nil if the
// schema has it.
func (k flowKeeper) conditionOf(ctx context.Context, o registry.Objects, s *flowcontrol.FlowSchema) (*flowcontrol.Condition, error) {
	name := s.Spec.PriorityLevelConfiguration.Name
	_, err := o.Get(ctx, registry.Target{Resource: k.levels, Name: name}, registry.ListRequest{})
	if err != nil && !status.IsNotFound(err) {
		return nil, err
	}
	want := flowcontrol.Condition{
		Type: flowcontrol.ConditionDangling, Status: "False", Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", name),
	}
	if err != nil {
		want.Status, want.Reason = "True", "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", name)
	}
	want.LastTransitionTime = meta.Time{Time: time.Now()}
	for _, have := range s.Status.Conditions {
		if have.Type != want.Type {
			continue
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
			return nil, nil
		}
	}
	return &want, nil
}

func (k flowKeeper) write(ctx context.Context, o registry.Objects, s *flowcontrol.FlowSchema, c *flowcontrol.Condition) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": k.schemas.GroupVersion().String(), "kind": "FlowSchema", "metadata": map[string]any{"name": s.Name, "uid": s.UID},
		"status": flowcontrol.Status{Conditions: []flowcontrol.Condition{*c}},
	})
	if err != nil {
		return err
	}
	_, err = o.Patch(ctx, registry.Target{Resource: k.schemas, Subresource: "status", Name: s.Name},
		registry.PatchRequest{Type: meta.ApplyPatch, Body: body}, registry.WriteOptions{FieldManager: flowConsumer, Force: true})
	if status.IsConflict(err) || status.IsNotFound(err) {
		return nil // it is gone, or its next event is on the way
	}
	return err
}
