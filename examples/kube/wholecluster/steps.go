package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// A step asks for something and waits until it is so.
type step struct {
	name string
	run  func(context.Context) error
}

// where the steps work, except those that need a namespace of their own
const namespace = "default"

// steps are the behaviours of a cluster, in an order in which each leaves room for the next.
func (c *cluster) steps() []step {
	return []step{
		{"nodes become ready", c.addNodes},
		{"deployment, rollout, undo", c.rollout},
		{"endpoints follow pods", c.endpoints},
		{"cascading deletion", c.cascade},
		{"stateful set", c.statefulSet},
		{"daemon set", c.daemonSet},
		{"job", c.job},
		{"cron job", c.cronJob},
		{"namespace with account, quota; its end", c.ownNamespace},
		{"many pods", c.many},
	}
}

func labelled(app string) map[string]string { return map[string]string{"app": app} }

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelled(app)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

func deployment(name string, replicas int) *appsv1.Deployment {
	n := int32(replicas) //nolint:gosec // small
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled(name)}, Spec: appsv1.DeploymentSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labelled(name)}, Template: template(name, "image:1"),
	}}
}

// changed updates a deployment, again after a conflict.
func (c *cluster) changed(ctx context.Context, name string, change func(*appsv1.Deployment)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(d)
		_, err = c.client.AppsV1().Deployments(namespace).Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
}

// available waits until exactly the pods of a deployment run, with one image.
func (c *cluster) available(ctx context.Context, name, image string, replicas int) error {
	return c.until(ctx, fmt.Sprintf("deployment %s has %d pods", name, replicas), func(ctx context.Context) (string, error) {
		d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if d.Status.ObservedGeneration != d.Generation || int(d.Status.AvailableReplicas) != replicas || int(d.Status.UpdatedReplicas) != replicas {
			return fmt.Sprintf("the status is %+v", d.Status), nil
		}
		return c.running(ctx, name, image, replicas)
	})
}

// running compares the pods of an app that run with what is asked for.
func (c *cluster) running(ctx context.Context, app, image string, want int) (string, error) {
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return "", err
	}
	good := 0
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.Spec.NodeName != "" && p.Spec.Containers[0].Image == image && metav1.GetControllerOf(&p) != nil {
			good++
		}
	}
	if len(list.Items) != good {
		return fmt.Sprintf("%d of %d pods of %s run as they should", good, len(list.Items), app), nil
	}
	return differ("pods of "+app, good, want), nil
}

func (c *cluster) rollout(ctx context.Context) error {
	if _, err := c.client.AppsV1().Deployments(namespace).Create(ctx, deployment("web", 3), metav1.CreateOptions{}); err != nil {
		return err
	}
	image := func(name string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
	}
	if err := c.available(ctx, "web", "image:1", 3); err != nil {
		return err
	}
	for _, to := range []string{"image:2", "image:1"} { // kubectl rollout undo writes the template of the replica set before
		if err := c.changed(ctx, "web", image(to)); err != nil {
			return err
		}
		if err := c.available(ctx, "web", to, 3); err != nil {
			return err
		}
	}
	return c.until(ctx, "there are two replica sets, at revisions 2 and 3", func(ctx context.Context) (string, error) {
		sets, err := c.client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(sets.Items) != 2 {
			return differ("replica sets", len(sets.Items), 2), err
		}
		revisions := map[string]bool{}
		for _, s := range sets.Items {
			revisions[s.Annotations["deployment.kubernetes.io/revision"]] = true
		}
		if !revisions["2"] || !revisions["3"] {
			return fmt.Sprintf("the revisions are %v", revisions), nil
		}
		return "", nil
	})
}

func (c *cluster) endpoints(ctx context.Context) error {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: labelled("web"), Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := c.client.CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return err
	}
	ready := func(want int) error {
		return c.until(ctx, "the slices have the addresses of the pods", func(ctx context.Context) (string, error) {
			slices, err := c.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
			if err != nil {
				return "", err
			}
			found := map[string]bool{}
			for _, slice := range slices.Items {
				for _, e := range slice.Endpoints {
					if e.Conditions.Ready != nil && *e.Conditions.Ready && len(e.Addresses) == 1 {
						found[e.Addresses[0]] = true
					}
				}
			}
			return differ("addresses", len(found), want), nil
		})
	}
	if err := ready(3); err != nil {
		return err
	}
	five := int32(5)
	if err := c.changed(ctx, "web", func(d *appsv1.Deployment) { d.Spec.Replicas = &five }); err != nil {
		return err
	}
	return ready(5)
}

func (c *cluster) cascade(ctx context.Context) error {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		if err := c.client.AppsV1().Deployments(namespace).Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			return err
		}
		if err := c.gone(ctx, namespace, "app=web"); err != nil {
			return err
		}
		if policy == metav1.DeletePropagationBackground {
			return nil
		}
		if _, err := c.client.AppsV1().Deployments(namespace).Create(ctx, deployment("web", 3), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.available(ctx, "web", "image:1", 3); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until no deployment, replica set or pod with a label is left.
func (c *cluster) gone(ctx context.Context, namespace, selector string) error {
	return c.until(ctx, "nothing with "+selector+" is left", func(ctx context.Context) (string, error) {
		o := metav1.ListOptions{LabelSelector: selector}
		deployments, err := c.client.AppsV1().Deployments(namespace).List(ctx, o) // one that is deleted in the foreground goes last
		if err != nil {
			return "", err
		}
		pods, err := c.client.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		sets, err := c.client.AppsV1().ReplicaSets(namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		return differ("deployments, pods and replica sets", len(deployments.Items)+len(pods.Items)+len(sets.Items), 0), nil
	})
}

func (c *cluster) statefulSet(ctx context.Context) error {
	three, one := int32(3), int32(1)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &three, ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labelled("db")}, Template: template("db", "image:1"),
	}}
	sets := c.client.AppsV1().StatefulSets(namespace)
	if _, err := sets.Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return err
	}
	names := func(want ...string) error {
		return c.until(ctx, fmt.Sprintf("the pods are %v", want), func(ctx context.Context) (string, error) {
			list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
			if err != nil {
				return "", err
			}
			var is []string
			for _, p := range list.Items {
				if p.Status.Phase == corev1.PodRunning {
					is = append(is, p.Name)
				}
			}
			if strings.Join(is, " ") != strings.Join(want, " ") {
				return fmt.Sprintf("%v run", is), nil
			}
			return "", nil
		})
	}
	if err := names("db-0", "db-1", "db-2"); err != nil {
		return err
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := sets.Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Spec.Replicas = &one
		_, err = sets.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return names("db-0")
}

func (c *cluster) daemonSet(ctx context.Context) error {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labelled("agent")}, Template: template("agent", "image:1"),
	}}
	if _, err := c.client.AppsV1().DaemonSets(namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.until(ctx, "each node has an agent", func(ctx context.Context) (string, error) {
		now, err := c.client.AppsV1().DaemonSets(namespace).Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if missing := differ("ready agents", int(now.Status.NumberReady), c.nodes); missing != "" {
			return missing, nil
		}
		return c.running(ctx, "agent", "image:1", c.nodes)
	})
}

func jobSpec() batchv1.JobSpec {
	four, two := int32(4), int32(2)
	t := template("job", "image:1")
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return batchv1.JobSpec{Completions: &four, Parallelism: &two, Template: t}
}

func (c *cluster) job(ctx context.Context) error {
	if _, err := c.client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: jobSpec()}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.until(ctx, "the job has succeeded four times", func(ctx context.Context) (string, error) {
		j, err := c.client.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return differ("successes", int(j.Status.Succeeded), 4), nil
	})
}

func (c *cluster) cronJob(ctx context.Context) error {
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "often"}, Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: jobSpec()},
	}}
	jobs := c.client.BatchV1().CronJobs(namespace)
	if _, err := jobs.Create(ctx, cron, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := c.until(ctx, "a job of the cron job has succeeded", func(ctx context.Context) (string, error) {
		now, err := jobs.Get(ctx, "often", metav1.GetOptions{})
		if err != nil || now.Status.LastSuccessfulTime != nil {
			return "", err
		}
		return "none has", nil
	})
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return jobs.Delete(ctx, "often", metav1.DeleteOptions{PropagationPolicy: &background})
}

func (c *cluster) ownNamespace(ctx context.Context) error {
	const own = "own"
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("50")},
	}}
	if _, err := c.client.CoreV1().ResourceQuotas(own).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := c.client.AppsV1().Deployments(own).Create(ctx, deployment("web", 4), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := c.until(ctx, "the account is there and the quota counts four pods", func(ctx context.Context) (string, error) {
		if _, err := c.client.CoreV1().ServiceAccounts(own).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return "", err
		}
		q, err := c.client.CoreV1().ResourceQuotas(own).Get(ctx, "pods", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		used := q.Status.Used[corev1.ResourcePods]
		return differ("pods counted", int(used.Value()), 4), nil
	})
	if err != nil {
		return err
	}
	if err := c.client.CoreV1().Namespaces().Delete(ctx, own, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.until(ctx, "the namespace has ended", func(ctx context.Context) (string, error) {
		now, err := c.client.CoreV1().Namespaces().Get(ctx, own, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("its conditions are %+v", now.Status.Conditions), nil
	})
}

func (c *cluster) many(ctx context.Context) error {
	if _, err := c.client.AppsV1().Deployments(namespace).Create(ctx, deployment("many", c.pods), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.available(ctx, "many", "image:1", c.pods); err != nil {
		return err
	}
	none := int32(0)
	if err := c.changed(ctx, "many", func(d *appsv1.Deployment) { d.Spec.Replicas = &none }); err != nil {
		return err
	}
	return c.available(ctx, "many", "image:1", 0)
}
