package domains

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// TestManyCPUs: libvirt defines a domain of as many CPUs as QEMU 7.2 has for a machine, and finds the IOMMU that it wants for them.
func TestManyCPUs(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	for _, cpu := range []v1.CPU{{Sockets: 2, Cores: 144}, {Sockets: 1, Cores: 64, MaxSockets: 4}} {
		vmi := plain("many")
		vmi.Spec.Domain.CPU = &cpu
		vmi.Spec.Domain.Memory = &v1.Memory{Guest: bytesOf(1 << 30)}
		explicit := identified(t, vmi, cluster(t))
		rendered, errs := render.Domain(render.Machine{VMI: explicit, Defaults: cluster(t).Frontend, Host: backend.Assumed("amd64"),
			Bindings: backend.AssumedBindings(explicit)})
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		dom := rendered.Documents.Domain
		if len(dom.Devices.IOMMUs) != 1 {
			t.Errorf("%d IOMMUs for %d CPUs, want one", len(dom.Devices.IOMMUs), dom.VCPU.Value)
		}
		dom.Type = "qemu" // this machine may have no KVM
		unchanged(t, d, dom)
	}
}
