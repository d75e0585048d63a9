package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/internal/objects"
)

// one is the one guest of a file, or of the cluster. before is the guest that it is the next version of, if any: what it
// refers to may lie there, and a VM of the cluster keeps its pins.
func (o *options) one(ctx context.Context, name string, before *guest) (guest, error) {
	from, args := *o, []string{name}
	if isFile(name) {
		from.files, args = args, nil
	}
	in, err := from.load(ctx, args)
	if err != nil {
		return guest{}, err
	}
	stage := stageOne{}
	if before != nil {
		in.reader = objects.Layers{in.reader, before.reader}
		if before.file == "" {
			stage.old = before.vm
		}
	}
	all, err := o.judge(ctx, in, stage)
	if err != nil {
		return guest{}, err
	}
	found, err := o.explicit(all)
	switch {
	case err != nil:
		return guest{}, err
	case len(found) != 1:
		return guest{}, fmt.Errorf("%s holds %d VMs and VMIs, want one", name, len(found))
	}
	return found[0], nil
}

// settle reads what administrators say from the cluster, if an object of it is compared: a file is what it is to become there.
func (o *options) settle(ctx context.Context, names []string) error {
	if !slices.ContainsFunc(names, func(name string) bool { return !isFile(name) }) {
		return nil
	}
	cluster, err := o.client()
	if err != nil {
		return err
	}
	in := inputs{reader: cluster, cluster: cluster}
	if _, err = o.configuration(ctx, in); err == nil {
		_, err = o.hostProfiles(ctx, in)
	}
	return err
}

// isFile tells a file from an object of the cluster, such as vm/web.
func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || name == "-" || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}
