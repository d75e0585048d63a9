package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// comparison reads the VMs that 'diff' and 'states' compare.
type comparison struct{ cmdutil.Inputs }

func newComparison(s *cmdutil.Session) comparison { return comparison{cmdutil.NewInputs(s)} }

// 'diff' has no -f: each argument is one object, in a file or as KIND/NAME in the cluster.

// oneGuest returns the one VM or VMI of a file, or of the cluster. before is the object whose next version it is, or nil. What the next version
// refers to may be among the objects of before. If before is stored in the cluster, the review is that of an update, so that pins stay.
// It returns ErrRejected or errUnanswered, with the causes printed, for an object without a verdict to compare, and a fault for none or several.
func (o *comparison) oneGuest(ctx context.Context, name string, before *workbench.Reviewed) (workbench.Reviewed, error) {
	files, args := o.Files, []string{name}
	if isFile(name) {
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
	all, err := o.Review(ctx, in, old)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	found, err := o.Bootable(all)
	switch {
	case err != nil:
		return workbench.Reviewed{}, err
	case len(found) != 1:
		return workbench.Reviewed{}, fmt.Errorf("%s holds %d VMs and VMIs, want one", name, len(found))
	}
	return found[0], nil
}

// readGuests returns the VM of a name with the VMI that it has made. A VMI of the cluster is found by its VM, which its ownerReference names. A VMI without a
// VM is returned in the place of the VM. Of a file there is no VMI.
func (o *comparison) readGuests(ctx context.Context, name string) (of guestdiff.VMWithVMI, err error) {
	if of.VM, err = o.oneGuest(ctx, name, nil); err != nil || isFile(name) {
		return of, err
	}
	if of.VM.Guest.VM == nil {
		by := metav1.GetControllerOf(of.VM.Guest.Explicit)
		if by == nil || by.Kind != v1.VirtualMachineGroupVersionKind.Kind {
			return of, nil
		}
		if of.VM, err = o.oneGuest(ctx, "vm/"+by.Name, nil); err != nil {
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
		o.Warn(fmt.Sprintf("VirtualMachineInstance '%s' exists and is not of this VM", found.Name))
		return of, nil
	}
	vmi, err := o.oneGuest(ctx, "vmi/"+vm.Name, nil)
	of.VMI = &vmi
	return of, err
}

// readClusterSettings makes configuration and HostProfiles those of the cluster if one of the names is an object there: a file that it is
// compared with is the next version of that object, and will boot there.
// It is called before either side is reviewed: the bench reads settings once, so that the first review would fix those of the file.
func (o *comparison) readClusterSettings(ctx context.Context, names []string) error {
	if !slices.ContainsFunc(names, func(name string) bool { return !isFile(name) }) {
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

// isFile reports whether an argument of 'diff' is a file, and no object of the cluster such as vm/web. A name with the extension of a
// manifest is a file even where it does not exist, so that the error names the file.
// Unlike namesObject it takes any path that exists: there is no -f by which a user could say that a file is meant.
func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || name == "-" || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}
