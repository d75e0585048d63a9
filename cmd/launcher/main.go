// Command launcher runs the guest of a pod, or the VMIs of a machine, and renders their libvirt documents. It is built from internal/guest (the life of one
// guest), internal/node (claims and phases of a machine), internal/hypervisor (libvirt) and internal/hostresources (what pod or machine gives to a start); this
// package has flags and output alone.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kilnvm/kiln/internal/version"
)

// main ends with exitStatus. A first SIGTERM or SIGINT ends the context of the command, a second one the process, but for 'guest'.
func main() {
	// The flags of controller-runtime's kubeconfig are registered by its import; root adds them.
	cmd := root()
	version.Add(cmd)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // the next signal has its usual effect
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(exitStatus(err))
}
