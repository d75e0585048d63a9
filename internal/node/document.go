package node

import (
	"context"

	"github.com/kilnvm/kiln/internal/hostprofile"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// documentFile is a file in the VMI's folder.
const documentFile = "domain.xml"

// renderUnclaimed writes the domain XML of a VMI that this machine could run, for people to read. It does not claim the VMI. Errors of rendering are logged and
// not written into the VMI, which belongs to the machine that will claim it.
func (n *Node) renderUnclaimed(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	if !n.canClaim(vmi) {
		return nil
	}
	changed, err := n.writeDocument(ctx, vmi)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("cannot render the VMI", "reason", err.Error())
		return nil
	}
	if !changed {
		return nil // logged at the earlier change
	}
	ctrl.LoggerFrom(ctx).Info("rendered but not started: libvirt is not reachable", "folder", n.Machine.Folder(vmi))
	return nil
}

// writeDocument writes the domain XML into the VMI's folder on a machine without libvirt, and reports whether the file changed. The VMI is not bound: the paths
// in the file are assumed.
func (n *Node) writeDocument(ctx context.Context, vmi *v1.VirtualMachineInstance) (bool, error) {
	profiles, err := hostprofile.All(ctx, n.Client)
	if err != nil {
		return false, err
	}
	rendered, errs := render.UnderProfiles(render.Machine{VMI: vmi, Defaults: n.Configuration.Now().Frontend, Host: n.hostFacts(),
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
