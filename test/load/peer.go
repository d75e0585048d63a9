package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// statusWriter writes one status for each new VM. It is the controller of the peer, with nothing that makes it faster than what controller-runtime offers.
type statusWriter struct{ client.Client }

func (w *statusWriter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var vm v1.VirtualMachine
	if err := w.Get(ctx, request.NamespacedName, &vm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if vm.Status.PrintableStatus != "" {
		return ctrl.Result{}, nil
	}
	reported := vm.DeepCopy()
	reported.Status.PrintableStatus = v1.VirtualMachineStatusStopped
	reported.Status.DesiredGeneration = vm.Generation
	return ctrl.Result{}, client.IgnoreNotFound(w.Status().Patch(ctx, reported, client.MergeFrom(&vm)))
}

// serveController runs the process of the peer's controller. It prints a line when it has started, and ends with its standard input.
func serveController(args []string) error {
	flags := flag.NewFlagSet("controller", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "access to the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400 // as Kiln's: by default, most statuses would be written after the creates
	ctrl.SetLogger(noLogs())
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&v1.VirtualMachine{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}). // as Kiln's
		Complete(&statusWriter{manager.GetClient()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	go func() {
		if manager.GetCache().WaitForCacheSync(ctx) {
			fmt.Println("started")
		}
	}()
	return manager.Start(ctx)
}

// controllerManifest is the service account of the peer's controller with its rights. It has the name of Kiln's: the match conditions of Kiln's webhooks, which
// are registered for the peer, exempt the statuses of that account.
const controllerManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[2]s}
rules:
- {apiGroups: [kubevirt.io], resources: [virtualmachines], verbs: [get, list, watch]}
- {apiGroups: [kubevirt.io], resources: [virtualmachines/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[2]s}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`

const controllerAccount = "kiln-controller"

// startController starts the peer's controller, and waits until its cache has synced.
func (b *bench) startController(ctx context.Context) error {
	_, stderr, err := b.Kubectl(ctx, fmt.Sprintf(controllerManifest, b.Namespace, controllerAccount), "apply", "-f", "-")
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	kubeconfig, err := b.Access(controllerAccount)
	if err != nil {
		return err
	}
	b.controlled = true
	b.controller, _, err = b.startSelf(ctx, "controller", "--kubeconfig", kubeconfig)
	return err
}
