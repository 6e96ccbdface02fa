package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Limits of the cluster.
const (
	podsPerNode = 110
	waitLimit   = 10 * time.Minute // for the cluster to become what is asked for
)

// A cluster is a set of programs that run together, in the order in which they start.
type cluster struct {
	client      kubernetes.Interface
	programs    []*program
	nodes, pods int

	served served // by all servers so far
	last   served // by the running one, when it was last asked
}

// serverName is the name of the server among the programs.
const serverName = "kube-apiserver"

// start starts the programs in order: the store of the server if it has one, the server, its clients.
func (c *cluster) start(ctx context.Context) error {
	for _, p := range c.programs {
		if err := p.start(ctx); err != nil {
			return err
		}
		if p.name != serverName {
			continue
		}
		if err := c.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until the server answers.
func (c *cluster) ready(ctx context.Context) error {
	return c.until(ctx, "the server is ready", func(ctx context.Context) (string, error) {
		_, err := c.client.Discovery().ServerVersion()
		if err != nil {
			return err.Error(), nil //nolint:nilerr // it is why to wait on
		}
		return "", nil
	})
}

// stop ends the programs, those that started first last.
func (c *cluster) stop() {
	for i := len(c.programs) - 1; i >= 0; i-- {
		c.programs[i].stop()
	}
}

// died returns errors about the programs that have ended by themselves.
func (c *cluster) died() error {
	var all []error
	for _, p := range c.programs {
		if p.running != nil {
			all = append(all, p.died())
		}
	}
	return errors.Join(all...)
}

// until asks for a state until it is reached: until look returns "". Otherwise look returns what is
// missing.
func (c *cluster) until(ctx context.Context, what string, look func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	missing := ""
	for {
		now, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: not within %s; %s: %w", what, waitLimit, missing, ctx.Err())
		case err != nil:
			missing = err.Error() // the server may be restarting
		case now == "":
			return nil
		default:
			missing = now
		}
		if err := c.died(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// addNodes creates the nodes, which kwok brings to life.
func (c *cluster) addNodes(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	for i := range c.nodes {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)},
			Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
		}
		if _, err := c.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return c.until(ctx, "the nodes are ready", func(ctx context.Context) (string, error) {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		ready := 0
		for _, n := range list.Items {
			for _, s := range n.Status.Conditions {
				if s.Type == corev1.NodeReady && s.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
					ready++
				}
			}
		}
		return differ("nodes", ready, c.nodes), nil
	})
}

// differ says that two numbers differ, or "".
func differ(what string, is, want int) string {
	if is == want {
		return ""
	}
	return fmt.Sprintf("%d %s instead of %d", is, what, want)
}
