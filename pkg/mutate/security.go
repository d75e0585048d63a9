package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: annotation kubevirt.io/qgs-socket-path.

// quoteSocket gives a VMI with launchSecurity.tdx the socket of the host's quote generation service, as the cluster configures it
// (ApplyNewVMIMutations). Trap: KubeVirt overwrites the annotation. Kiln keeps a user's annotation, and validate refuses a path that is not the cluster's.
func quoteSocket(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if security := vmi.Spec.Domain.LaunchSecurity; security == nil || security.TDX == nil {
		return
	}
	annotateUnset(vmi, v1.QGSSocketPathAnnotation, d.QuoteSocket)
}
