package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: annotation kubevirt.io/qgs-socket-path.
// A TDX guest is told where its host's quote generation service listens. The path is the administrator's: one that the user
// wrote stays, and validate refuses it where it is another.
func quoteSocket(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if security := vmi.Spec.Domain.LaunchSecurity; security == nil || security.TDX == nil {
		return
	}
	annotate(vmi, v1.QGSSocketPathAnnotation, d.QuoteSocket)
}
