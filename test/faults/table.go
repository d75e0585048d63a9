package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/kilnvm/kiln/certs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fault is one row. do breaks something and returns when it was mended.
type fault struct {
	name string
	do   func(context.Context, *stage) error
	// none says that no create may fail.
	none bool
	// old says that it needs programs of an older commit.
	old bool
	// age is how long the control plane has run before: its certificate is valid from its start on, and clocks that are behind must know it.
	age time.Duration
}

const (
	stopped = 20 * time.Second // of etcd
	skewed  = "600"            // seconds of the wrong clock
)

var faults = []fault{
	{name: "none", do: func(context.Context, *stage) error { return nil }, none: true},
	{name: "a replica drained (SIGTERM)", do: func(ctx context.Context, s *stage) error { return s.on.DrainWebhook(ctx, 0) }, none: true},
	{name: "a replica killed (SIGKILL)", do: func(ctx context.Context, s *stage) error { return s.on.KillWebhook(ctx, 0) }},
	{name: "leader stopped (SIGTERM)", do: func(ctx context.Context, s *stage) error { return s.on.StopLeader(ctx) }, none: true},
	{name: "leader killed (SIGKILL)", do: func(ctx context.Context, s *stage) error { return s.on.KillLeader(ctx) }, none: true},
	{name: "rolling update to another binary", do: func(ctx context.Context, s *stage) error { return s.rollTo(ctx, "next") }, none: true},
	{name: "certificate rotated", do: func(ctx context.Context, s *stage) error { return s.rotateKey(ctx, "tls.key") }, none: true},
	{name: "CA rotated", do: func(ctx context.Context, s *stage) error { return s.rotateKey(ctx, "ca.key") }, none: true},
	{name: "clocks of Kiln 10 minutes ahead", do: func(ctx context.Context, s *stage) error { return s.skewClocks(ctx, skewed) }, none: true},
	{name: "new webhook, old controller", do: func(ctx context.Context, s *stage) error {
		return s.runTogether(ctx, "webhook", "controller-old")
	}, old: true, none: true},
	{name: "old webhook, new controller", do: func(ctx context.Context, s *stage) error {
		return s.runTogether(ctx, "webhook-old", "controller")
	}, old: true, none: true},
	{name: "clocks of Kiln 10 minutes behind", do: func(ctx context.Context, s *stage) error { return s.skewClocks(ctx, "-"+skewed) }, none: true,
		age: 11 * time.Minute},
	{name: "both replicas killed", do: func(ctx context.Context, s *stage) error { return s.on.KillWebhook(ctx, 0, 1) }},
	{name: "API server killed", do: func(ctx context.Context, s *stage) error { return s.on.SignalPlane("kube-apiserver", syscall.SIGKILL) }},
	{name: "etcd stopped for 20 s", do: func(ctx context.Context, s *stage) error {
		if err := s.on.SignalPlane("etcd", syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(stopped)
		return s.on.SignalPlane("etcd", syscall.SIGCONT)
	}},
	{name: "etcd out of quota", do: func(ctx context.Context, s *stage) error { return s.fillEtcd(ctx) }},
}

// rollTo replaces webhook and controller by another build, as kubectl does that applies both Deployments at once.
func (s *stage) rollTo(ctx context.Context, suffix string) error {
	done := make(chan error, 1)
	go func() { done <- s.on.RollController(ctx, "controller-"+suffix) }()
	return errors.Join(s.on.RollWebhook(ctx, "webhook-"+suffix), <-done)
}

// runPair runs these two programs.
func (s *stage) runPair(ctx context.Context, webhook, controller string) error {
	return errors.Join(s.on.RollWebhook(ctx, webhook), s.on.RollController(ctx, controller))
}

// runTogether runs two versions together. VMs that were created before are started, and one is restored from a backup.
func (s *stage) runTogether(ctx context.Context, webhook, controller string) error {
	if err := s.runPair(ctx, webhook, controller); err != nil {
		return err
	}
	vms := s.dynamic.Resource(machines).Namespace(s.space)
	for _, name := range []string{"vm-1", "vm-2", "vm-3"} {
		if _, err := vms.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"runStrategy":"Always"}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return s.restoreVM(ctx, "vm-4")
}

// restoreVM deletes a VM and creates it again as a backup tool does. What is found of its pins afterwards is compared with those that it had.
func (s *stage) restoreVM(ctx context.Context, name string) error {
	vms := s.dynamic.Resource(machines).Namespace(s.space)
	saved, err := vms.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"} {
		unstructured.RemoveNestedField(saved.Object, "metadata", set)
	}
	unstructured.RemoveNestedField(saved.Object, "status")
	if err := vms.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return retryUntil(ctx, time.Minute, func() error {
		_, err := vms.Create(ctx, saved, metav1.CreateOptions{})
		return err // it is in the way until its deletion has ended
	})
}

// skewClocks runs all of Kiln with clocks that are wrong by some seconds. They stay wrong until the VMs were looked at; end of the stage mends them.
func (s *stage) skewClocks(ctx context.Context, seconds string) error {
	right := s.on.Env
	s.on.Env = append(right[:len(right):len(right)], clockVariable+"="+seconds)
	err := s.rollTo(ctx, "skewed")
	s.on.Env = right
	return err
}

// rotateKey removes a key from its Secret, so that the rotation signs again, and waits until the new certificate is served.
func (s *stage) rotateKey(ctx context.Context, key string) error {
	before, err := s.servedCertificate(ctx)
	if err != nil {
		return err
	}
	patch := []byte(`{"data":{"` + key + `":null}}`)
	if _, err := s.client.CoreV1().Secrets(s.on.Namespace).Patch(ctx, certs.Secret, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return retryUntil(ctx, time.Minute, func() error {
		after, err := s.servedCertificate(ctx)
		if err == nil && after == before {
			err = errors.New("the old certificate is still served")
		}
		return err
	})
}
