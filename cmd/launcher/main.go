// Command launcher renders the libvirt documents of admitted VMIs, and runs those of its machine.
package main

import (
	"fmt"
	"os"

	"github.com/kilnvm/kiln/internal/launch"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := launch.Command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
