package node

import (
	"context"

	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// documentFile is in the VMI's own folder.
const documentFile = "domain.xml"

// renderOnly writes the domain XML of a VMI that this machine could run, for people to read. It claims nothing, and what cannot be rendered is
// logged, not reported in the VMI: the VMI belongs to the machine that will claim it.
func (n *Node) renderOnly(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	if !n.fits(vmi) {
		return nil
	}
	changed, err := n.writeDocument(ctx, vmi)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot render the VMI", "reason", err.Error())
		return nil
	}
	if !changed {
		return nil // already logged
	}
	ctrl.LoggerFrom(ctx).Info("rendered but not started: libvirt is not reachable", "folder", n.Machine.Folder(vmi))
	return nil
}

// writeDocument writes the domain XML into the VMI's folder, for a machine without libvirt. It reports whether the file changed. Nothing is bound:
// the paths in it are assumed ones.
func (n *Node) writeDocument(ctx context.Context, vmi *v1.VirtualMachineInstance) (bool, error) {
	profiles, err := hostprofile.All(ctx, n.Client)
	if err != nil {
		return false, err
	}
	rendered, errs := render.UnderProfiles(render.Machine{VMI: vmi, Defaults: n.Configuration.Now().Frontend, Host: n.facts(),
		Bindings: backend.AssumedBindings(vmi)}, profiles)
	if len(errs) > 0 {
		return false, errs.ToAggregate()
	}
	xml, err := rendered.Documents.Domain.Marshal()
	if err != nil {
		return false, err
	}
	if before, err := n.Machine.ReadFile(vmi, documentFile); err == nil && string(before) == xml {
		return false, nil
	}
	return true, n.Machine.WriteFile(vmi, documentFile, []byte(xml))
}
