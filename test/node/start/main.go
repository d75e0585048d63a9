// Command start starts a Kubernetes node by hand, as tests have it, and ends it at Ctrl-C: go run ./test/node/start
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kilnvm/kiln/test/node"
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

// run prints how to reach the node once its pods can run, and waits for the end of the context.
func run(ctx context.Context) error {
	if err := node.Incapable(); err != nil {
		return fmt.Errorf("this machine cannot run a Kubernetes node: %w", err)
	}
	n, err := node.Run(ctx, node.Options{})
	if err != nil {
		return err
	}
	fmt.Printf("Pods can run on %s.\n\nexport KUBECONFIG=%s PATH=%s:$PATH\n\nImport an image: %s --address %s --namespace k8s.io images import FILE\n"+
		"Logs: %s\nCtrl-C ends the node.\n", n.Name, n.Kubeconfig(), n.Programs, n.Ctr, n.Containerd, n.Dir)
	<-ctx.Done()
	return n.Close()
}
