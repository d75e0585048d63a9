// Package model drives admission, the VM controller and the collector of revisions through long random histories on a real
// API server, in which processes die between any two writes and caches lag behind, and checks after each step that no VM
// ever lacks what it was admitted with.
package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/test/cluster"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server is the API server, as its administrator sees it. There are no webhooks in it: the model is the API server's side of
// admission itself, so that it can let other things happen between an answer and the write that follows.
var server client.WithWatch

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what processes say that are killed is of no interest
	code, err := withServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		code = 1
	}
	os.Exit(code)
}

func withServer(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "kiln-model-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	plane, err := cluster.StartPlane("../..", dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, plane.Close()) }()
	apply := exec.Command(plane.Kubectl(), "apply", "--server-side", "-k", "../../manifests/crds", "--kubeconfig", plane.Kubeconfig)
	if out, err := apply.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", apply.Args, err, out)
	}
	if err := cluster.Established(context.Background(), plane.Kubeconfig); err != nil {
		return 0, err
	}
	if server, err = connect(plane.Kubeconfig); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func connect(kubeconfig string) (client.WithWatch, error) {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	access.QPS = -1 // the model does one thing at a time
	// HTTP/2 gives a connection up that does not answer for half a minute, as on a machine that does too much at once.
	access.NextProtos = []string{"http/1.1"}
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1.AddToScheme(known), snapshot.AddToScheme(known)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(access, client.Options{Scheme: known})
}
