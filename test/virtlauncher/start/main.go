// Command start starts a Kubernetes node with KubeVirt by hand, as tests have it, and ends it at Ctrl-C: go run ./test/virtlauncher/start
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/virtlauncher"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

// run installs KubeVirt, prints how to reach the node, and waits for the end of the context. A failed installation stays until then, to be looked at.
func run(ctx context.Context) (err error) {
	if err := virtlauncher.Incapable(); err != nil {
		return fmt.Errorf("this machine cannot run guests of KubeVirt: %w", err)
	}
	dir, err := cluster.Dir("kiln-virtlauncher")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := node.Run(ctx, node.Options{Kubelet: virtlauncher.Kubelet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	fmt.Printf("export KUBECONFIG=%s PATH=%s:$PATH\nImport an image: %s --address %s --namespace k8s.io images import FILE\nLogs: %s\n",
		n.Kubeconfig(), n.Programs, n.Ctr, n.Containerd, n.Dir)
	if err := (&virtlauncher.KubeVirt{Root: ".", Dir: dir}).Install(ctx, n); err != nil {
		fmt.Fprintln(os.Stderr, "start: KubeVirt is not complete:", err)
	} else {
		fmt.Println("KubeVirt serves. Ctrl-C ends the node.")
	}
	<-ctx.Done()
	return nil
}
