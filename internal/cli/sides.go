package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/internal/workbench"
	v1 "kubevirt.io/api/core/v1"
)

// one returns the one guest of a file, or of the cluster. before is the guest whose next version it is, nil for none: what it
// refers to may lie there, and a VM of the cluster keeps its pins.
func (o *options) one(ctx context.Context, name string, before *workbench.Reviewed) (workbench.Reviewed, error) {
	files, args := o.files, []string{name}
	if isFile(name) {
		files.Names, args = args, nil
	}
	in, err := o.load(files, args)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	var old *v1.VirtualMachine
	if before != nil {
		in = in.Over(*before)
		if before.File() == "" {
			old = before.Guest.VM
		}
	}
	all, err := o.review(ctx, in, old)
	if err != nil {
		return workbench.Reviewed{}, err
	}
	found, err := o.bootable(all)
	switch {
	case err != nil:
		return workbench.Reviewed{}, err
	case len(found) != 1:
		return workbench.Reviewed{}, fmt.Errorf("%s holds %d VMs and VMIs, want one", name, len(found))
	}
	return found[0], nil
}

// settle reads configuration and HostProfiles of the cluster if an object of it is compared: a file is the next version of that object.
func (o *options) settle(ctx context.Context, names []string) error {
	if !slices.ContainsFunc(names, func(name string) bool { return !isFile(name) }) {
		return nil
	}
	cluster, err := o.client()
	if err != nil {
		return err
	}
	warnings, err := o.bench.ReadSettings(ctx, workbench.Inputs{Reader: cluster, OfCluster: true})
	o.warn(warnings...)
	return err
}

// isFile reports whether a name is a file, and no object of the cluster such as vm/web.
func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || name == "-" || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}
