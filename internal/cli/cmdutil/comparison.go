package cmdutil

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Comparison reads the VMs that 'diff' and 'states' compare.
type Comparison struct{ Inputs }

// NewComparison returns the inputs of a command that compares two sides.
func NewComparison(s *Session) Comparison { return Comparison{NewInputs(s)} }

// 'diff' has no -f: each argument is one object, in a file or as KIND/NAME in the cluster.

// OneGuest returns the VM or VMI of a file, or of the cluster. If before is not nil, the object is its next version, and may refer to the objects of before's
// file. If before is stored in the cluster, the object is reviewed as an update, which keeps the pins.
// If the object is rejected or cannot be judged, OneGuest prints the causes and returns ErrRejected or ErrUnanswered. It fails if there is not exactly one.
func (o *Comparison) OneGuest(ctx context.Context, name string, before *workbench.Reviewed) (workbench.Reviewed, error) {
	files, args := o.Files, []string{name}
	if IsFile(name) {
		files.Names, args = args, nil
	}
	in, err := o.Load(files, args)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	var old *v1.VirtualMachine
	if before != nil {
		in = before.AddReferences(in)
		if before.File() == "" {
			old = before.Guest.VM
		}
	}
	all, err := o.ReviewInputs(ctx, in, old)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	found, err := o.BootableGuests(all)
	switch {
	case err != nil:
		return workbench.Reviewed{}, err
	case len(found) != 1:
		return workbench.Reviewed{}, fmt.Errorf("%s holds %d VMs and VMIs, want one", name, len(found))
	}
	return found[0], nil
}

// ReadGuests returns a VM and the VMI that it has created. The name may be the name of the VMI: its ownerReference names the VM. If a VMI has no VM, it is
// returned as VM. The VM of a file has no VMI.
func (o *Comparison) ReadGuests(ctx context.Context, name string) (of guestdiff.VMWithVMI, err error) {
	if of.VM, err = o.OneGuest(ctx, name, nil); err != nil || IsFile(name) {
		return of, err
	}
	if of.VM.Guest.VM == nil {
		by := metav1.GetControllerOf(of.VM.Guest.Explicit)
		if by == nil || by.Kind != v1.VirtualMachineGroupVersionKind.Kind {
			return of, nil
		}
		if of.VM, err = o.OneGuest(ctx, "vm/"+by.Name, nil); err != nil {
			return of, err
		}
	}
	reader, err := o.Client()
	if err != nil {
		return of, err
	}
	vm, found := of.VM.Guest.VM, &v1.VirtualMachineInstance{}
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(vm), found); {
	case apierrors.IsNotFound(err):
		return of, nil
	case err != nil:
		return of, err
	case !metav1.IsControlledBy(found, vm):
		o.Warn(fmt.Sprintf("VirtualMachineInstance '%s' exists and does not belong to this VM", found.Name))
		return of, nil
	}
	vmi, err := o.OneGuest(ctx, "vmi/"+vm.Name, nil)
	of.VMI = &vmi
	return of, err
}

// ReadClusterSettings reads the configuration and the HostProfiles of the cluster if one of the names is an object in the cluster. If the other name is a
// file, the object in it will boot in the same cluster.
// It must be called before a side is reviewed: the bench reads settings only once, and could use settings of the file.
func (o *Comparison) ReadClusterSettings(ctx context.Context, names []string) error {
	if !slices.ContainsFunc(names, func(name string) bool { return !IsFile(name) }) {
		return nil
	}
	cluster, err := o.Client()
	if err != nil {
		return err
	}
	warnings, err := o.Bench.ReadSettings(ctx, manifest.Inputs{Reader: cluster, OfCluster: true})
	o.Warn(warnings...)
	return err
}

// IsFile reports whether an argument of 'diff' is a file, not an object of the cluster such as vm/web. A name with the extension of a
// manifest is a file even if it does not exist, so that the error names the file.
// Unlike namesObject it accepts any existing path, because 'diff' has no -f.
func IsFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || name == "-" || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}
