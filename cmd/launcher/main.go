// Command launcher renders the libvirt documents of admitted VMIs, and runs those of its machine. It is built from internal/node (claims and phases),
// internal/hypervisor (libvirt) and internal/bind (what the machine gives to a start); this package has flags and output alone.
package main

import (
	"fmt"
	"os"

	"github.com/kilnvm/kiln/internal/version"
	ctrl "sigs.k8s.io/controller-runtime"
)

// main ends with exitStatus. A first SIGTERM or SIGINT ends the context of the command, a second one the process.
func main() {
	// The flags of controller-runtime's kubeconfig are registered by its import; root adds them.
	cmd := root()
	version.Add(cmd)
	err := cmd.ExecuteContext(ctrl.SetupSignalHandler())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(exitStatus(err))
}
