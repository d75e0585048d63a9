package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: annotation kubevirt.io/qgs-socket-path.
// A TDX guest is told where its host's quote generation service listens. Where is the administrator's word: validate refuses
// another path.
func quoteSocket(vmi *v1.VirtualMachineInstance, d config.Defaults) {
	if security := vmi.Spec.Domain.LaunchSecurity; security == nil || security.TDX == nil {
		return
	}
	if _, written := vmi.Annotations[v1.QGSSocketPathAnnotation]; written {
		return
	}
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[v1.QGSSocketPathAnnotation] = d.QuoteSocket
}
