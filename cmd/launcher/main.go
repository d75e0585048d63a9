// Command launcher runs the guest of a pod, or the VMIs of a machine, and renders their libvirt documents. It is built from internal/guest (the life of one
// guest), internal/node (claims and phases of a machine), internal/hypervisor (libvirt) and internal/hostresources (files and devices of the pod or the
// machine). This package has only flags and output.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kilnvm/kiln/internal/version"
)

// main ends with exitStatus. A first SIGTERM or SIGINT ends the context of the command. A second one ends the process, except of 'guest'.
func main() {
	// The flags of controller-runtime's kubeconfig are registered by its import; root adds them.
	cmd := newCommand()
	version.Add(cmd)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // the next signal ends the process
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(exitStatus(err))
}
