// Package mutate makes a guest's spec explicit: ordered passes that fill what is unset, never change what is set,
// are a no-op the second time, and cannot fail.
package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Apply runs all passes in order.
func Apply(vmi *v1.VirtualMachineInstance, defaults config.Defaults) {}
