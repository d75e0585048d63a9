package guestdiff

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/snapshot"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// maxSnapshots is how many of the newest snapshots are read. A VM may have thousands.
const maxSnapshots = 20

// snapshotStates returns one state for each snapshot of a VM, the newest first, with the changes relative to the record of the VM. Without a snapshot, it
// returns one state that says why.
func snapshotStates(ctx context.Context, cluster client.Reader, vm *v1.VirtualMachine, recorded State) ([]State, error) {
	none := func(cause string) []State {
		return []State{{State: StateSnapshots, Name: "snapshots", Cause: cause}}
	}
	var list api.VirtualMachineSnapshotList
	err := cluster.List(ctx, &list, client.InNamespace(vm.Namespace))
	switch {
	case meta.IsNoMatchError(err):
		return none("the cluster serves no snapshots"), nil
	case apierrors.IsForbidden(err):
		return none("you may not list VirtualMachineSnapshots"), nil
	case err != nil:
		return nil, err
	}
	own := slices.DeleteFunc(list.Items, func(of api.VirtualMachineSnapshot) bool { return of.Spec.Source.Name != vm.Name })
	slices.SortFunc(own, func(a, b api.VirtualMachineSnapshot) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if len(own) == 0 {
		return none("the VM has no snapshots"), nil
	}
	var all []State
	for i := range own[:min(len(own), maxSnapshots)] {
		s, err := snapshotState(ctx, cluster, &own[i])
		if err != nil {
			return nil, err
		}
		if s.record != nil && recorded.record != nil && s.Digest != recorded.Digest {
			s.Changes = record.Compare(*recorded.record, *s.record)
			s.Hidden = len(s.Changes) == 0
		}
		all = append(all, s)
	}
	if more := len(own) - len(all); more > 0 {
		all = append(all, none(fmt.Sprintf("and %d older ones", more))...)
	}
	return all, nil
}

// snapshotState returns the state of one snapshot. If its content cannot be read, Cause has the error.
func snapshotState(ctx context.Context, cluster client.Reader, of *api.VirtualMachineSnapshot) (State, error) {
	s := State{State: StateSnapshots, Name: "snapshot " + of.Name, Time: &of.CreationTimestamp, Cause: "waits for Kiln's controller"}
	if of.Status == nil {
		return s, nil
	}
	s.Cause = string(of.Status.Phase)
	if of.Status.CreationTime != nil {
		s.Time = of.Status.CreationTime
	}
	if of.Status.VirtualMachineSnapshotContentName == nil {
		return s, nil
	}
	content, kept := &api.VirtualMachineSnapshotContent{}, snapshot.Kept{}
	err := cluster.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: *of.Status.VirtualMachineSnapshotContentName}, content)
	if err == nil {
		s.Cause += ", VM " + content.Annotations[v1alpha1.AnnotationSnapshotState]
		kept, err = snapshot.Read(content)
	}
	if err == nil && kept.Revision == "" {
		s.Cause += ", not recorded yet"
		return s, nil
	}
	found := &appsv1.ControllerRevision{}
	if err == nil {
		err = cluster.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: kept.Revision}, found)
	}
	if err == nil {
		err = revision.Verify(found)
	}
	if err == nil {
		kept, err = kept.WithRecord(found.Data.Raw)
	}
	if err != nil {
		s.Cause += ": " + err.Error()
		return s, ctx.Err()
	}
	if live := kept.Live; live != nil {
		s.Cause += fmt.Sprintf(", whose guest ran %d vCPUs and %d MiB, digest %s", live.VCPUs, live.MemoryKiB>>10, live.Digest)
	}
	s.record, s.Digest = kept.Hardware.Hardware, kept.Hardware.Hardware.Digest
	document, err := yaml.Marshal(kept.Hardware)
	s.YAML = string(document)
	return s, err
}
