package workbench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/pkg/config"
)

// Values of --runtime besides the values of config.Runtime.
const (
	// RuntimeAuto means KubeVirt if its version is given, or if the inputs or the cluster contain it. Otherwise Kiln runs the guests, and it is not known how.
	RuntimeAuto     = "auto"
	RuntimeKubeVirt = "kubevirt"
)

// Runtimes are the values of --runtime.
var Runtimes = []string{RuntimeAuto, RuntimeKubeVirt, string(config.RuntimePod), string(config.RuntimeNode)}

// RuntimeUsage is the help text of --runtime.
const RuntimeUsage = "what runs the guests: 'kubevirt'; 'pod', a pod of Kiln for each VMI; 'node', Kiln on bare machines; 'auto', KubeVirt if " +
	"--kubevirt-version is given or the cluster or the files contain KubeVirt, and otherwise Kiln. 'auto' only warns of VMs that no pod of Kiln can run, " +
	"and 'pod' rejects them"

// runtimeOf returns what a value of --runtime means: the value of installed.RunsGuests, and how Kiln runs guests.
func runtimeOf(value string) (guests string, runtime config.Runtime, err error) {
	value = cmp.Or(value, RuntimeAuto)
	switch {
	case !slices.Contains(Runtimes, value):
		return "", "", fmt.Errorf("--runtime is '%s': it must be '%s'", value, strings.Join(Runtimes, "', '"))
	case value == RuntimeAuto:
		return installed.Auto, "", nil
	case value == RuntimeKubeVirt:
		return installed.KubeVirt, "", nil
	}
	return installed.Kiln, config.Runtime(value), nil
}
