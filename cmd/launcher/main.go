// Command launcher renders the libvirt documents of admitted VMIs, and runs those of its machine.
package main

import (
	"fmt"
	"os"

	"github.com/kilnvm/kiln/internal/version"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	cmd := root()
	version.Add(cmd)
	err := cmd.ExecuteContext(ctrl.SetupSignalHandler())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(exitStatus(err))
}
