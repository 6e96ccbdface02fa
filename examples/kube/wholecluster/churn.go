package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	churned      = 10 // deployments
	mostReplicas = 20 // of each
	restartEvery = 20 * time.Second
)

// churn scales deployments and changes their images for a while, and restarts one program after
// another. Then exactly the pods that were asked for last must run.
func (c *cluster) churn(ctx context.Context, lasts time.Duration, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable, and no secret
	wanted := map[string]appsv1.Deployment{}
	for i := range churned {
		d := deployment(fmt.Sprintf("churn-%d", i), 1)
		if _, err := c.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return err
		}
		wanted[d.Name] = *d
	}
	programs := slices.DeleteFunc(slices.Clone(c.programs), func(p *program) bool { return p.name == "etcd" })
	end, restart := time.Now().Add(lasts), time.Now().Add(restartEvery)
	changes := 0
	for turn := 0; time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		name := fmt.Sprintf("churn-%d", r.IntN(churned))
		d := wanted[name]
		replicas := r.Int32N(mostReplicas + 1)
		d.Spec.Replicas = &replicas
		d.Spec.Template = template(name, fmt.Sprintf("image:%d", r.IntN(3)))
		if err := c.repeat(ctx, func() error {
			return c.changed(ctx, name, func(now *appsv1.Deployment) { now.Spec.Replicas, now.Spec.Template = d.Spec.Replicas, d.Spec.Template })
		}); err != nil {
			return fmt.Errorf("change %s: %w", name, err)
		}
		wanted[name] = d
		changes++
		if time.Now().Before(restart) {
			continue
		}
		p := programs[turn%len(programs)]
		if p.name == serverName {
			if err := c.count(ctx); err != nil {
				return err
			}
			c.last = served{}
		}
		p.stop()
		if err := p.start(ctx); err != nil {
			return err
		}
		if err := c.ready(ctx); err != nil {
			return err
		}
		turn, restart = turn+1, time.Now().Add(restartEvery)
	}
	for name, d := range wanted {
		if err := c.available(ctx, name, d.Spec.Template.Spec.Containers[0].Image, int(*d.Spec.Replicas)); err != nil {
			return err
		}
	}
	fmt.Printf("%d changes\n", changes)
	return c.owned(ctx)
}

// repeat repeats a write while the server restarts.
func (c *cluster) repeat(ctx context.Context, write func() error) error {
	for end := time.Now().Add(waitLimit); ; time.Sleep(100 * time.Millisecond) {
		err := write()
		if err == nil || ctx.Err() != nil || time.Now().After(end) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
			return err
		}
	}
}

// owned counts the pods whose controller does not exist.
func (c *cluster) owned(ctx context.Context) error {
	return c.until(ctx, "every pod has an owner that exists", func(ctx context.Context) (string, error) {
		uids := map[string]bool{}
		sets, err := c.client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, s := range sets.Items {
			uids[string(s.UID)] = true
		}
		pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		lost := 0
		for _, p := range pods.Items {
			if owner := metav1.GetControllerOf(&p); owner == nil || owner.Kind == "ReplicaSet" && !uids[string(owner.UID)] {
				lost++
			}
		}
		return differ("pods without an owner", lost, 0), nil
	})
}
