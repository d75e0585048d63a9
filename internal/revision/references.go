package revision

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// usedRevisions are the revisions that VMs, VMIs and contents of snapshots refer to.
type usedRevisions struct {
	names map[client.ObjectKey]*revisionUsers
	// unreadable are the namespaces with a pins annotation that cannot be parsed. No revision in them is deleted.
	unreadable map[string]bool
}

// revisionUsers are the names of the objects that refer to a revision.
type revisionUsers struct{ vms, vmis, contents []string }

// contains reports whether a revision is used, or may be.
func (u *usedRevisions) contains(r *appsv1.ControllerRevision) bool {
	return u.unreadable[r.Namespace] || u.names[client.ObjectKeyFromObject(r)] != nil
}

// addReference records that an object refers to a revision of its namespace. A VM that refers to a revision by its pin and by its status is listed once.
func (u *usedRevisions) addReference(user metav1.Object, name string) {
	if name == "" || name == v1alpha1.PinNone {
		return
	}
	key := client.ObjectKey{Namespace: user.GetNamespace(), Name: name}
	found := u.names[key]
	if found == nil {
		found = &revisionUsers{}
		u.names[key] = found
	}
	list := &found.vms
	switch user.(type) {
	case *v1.VirtualMachineInstance:
		list = &found.vmis
	case *snapshot.VirtualMachineSnapshotContent:
		list = &found.contents
	}
	if at := len(*list); at == 0 || (*list)[at-1] != user.GetName() {
		*list = append(*list, user.GetName())
	}
}

// addPins adds the revisions that the pins annotation of an object names.
func (u *usedRevisions) addPins(object metav1.Object) {
	names, legible := pin.Names(object)
	if !legible {
		u.unreadable[object.GetNamespace()] = true
	}
	for _, name := range names {
		u.addReference(object, name)
	}
}

// listReferences returns the revisions that VMs and VMIs refer to: by pins, by revisionName, and by the status, from which KubeVirt resolves. VMIs count
// because a VMI may outlive its VM, and may be created again from its own YAML. Contents count because a restore needs their revisions, which their annotation
// kilnvm.io/pins names.
func listReferences(ctx context.Context, reader client.Reader, options ...client.ListOption) (*usedRevisions, error) {
	found := &usedRevisions{names: map[client.ObjectKey]*revisionUsers{}, unreadable: map[string]bool{}}
	err := forEachUser(ctx, reader, found.addVM, func(vmi *v1.VirtualMachineInstance) { found.addPins(vmi) }, options...)
	if err != nil {
		return nil, err
	}
	if (&client.ListOptions{}).ApplyOptions(options).Limit > 0 {
		options = append(options, contentPage)
	}
	err = forEachPage(ctx, reader, func(page *snapshot.VirtualMachineSnapshotContentList) {
		for i := range page.Items {
			found.addContent(&page.Items[i])
		}
	}, options...)
	if err != nil && !meta.IsNoMatchError(err) { // a cluster that does not serve the kind has no contents
		return nil, err
	}
	return found, nil
}

// forEachUser calls vm for each VM, and then vmi for each VMI.
func forEachUser(ctx context.Context, reader client.Reader, vm func(*v1.VirtualMachine), vmi func(*v1.VirtualMachineInstance),
	options ...client.ListOption) error {
	err := forEachPage(ctx, reader, func(page *v1.VirtualMachineList) {
		for i := range page.Items {
			vm(&page.Items[i])
		}
	}, options...)
	if err != nil {
		return err
	}
	return forEachPage(ctx, reader, func(page *v1.VirtualMachineInstanceList) {
		for i := range page.Items {
			vmi(&page.Items[i])
		}
	}, options...)
}

func (u *usedRevisions) addVM(vm *v1.VirtualMachine) {
	u.addPins(vm)
	u.addRevisionNames(vm, &vm.Spec, &vm.Status)
}

// addRevisionNames adds the revisions that a VM refers to by revisionName and by its status.
func (u *usedRevisions) addRevisionNames(user metav1.Object, spec *v1.VirtualMachineSpec, status *v1.VirtualMachineStatus) {
	if m := spec.Instancetype; m != nil {
		u.addReference(user, m.RevisionName)
	}
	if m := spec.Preference; m != nil {
		u.addReference(user, m.RevisionName)
	}
	for _, of := range []*v1.InstancetypeStatusRef{status.InstancetypeRef, status.PreferenceRef} {
		if of != nil && of.ControllerRevisionRef != nil {
			u.addReference(user, of.ControllerRevisionRef.Name)
		}
	}
}

// addContent adds the revisions that the content of a snapshot names. It also adds the revisions of the VM in the content, because KubeVirt's contents have no
// annotation.
func (u *usedRevisions) addContent(content *snapshot.VirtualMachineSnapshotContent) {
	u.addPins(content)
	vm := content.Spec.Source.VirtualMachine
	if vm == nil {
		return
	}
	names, legible := pin.Names(&vm.ObjectMeta)
	if !legible {
		u.unreadable[content.Namespace] = true
	}
	for _, name := range names {
		u.addReference(content, name)
	}
	u.addRevisionNames(content, &vm.Spec, &vm.Status)
}

// pageSize bounds one answer of the API server; the pages of one list are consistent with each other.
const pageSize = client.Limit(500)

// contentPage is the page size of contents, which have up to a megabyte each.
const contentPage = client.Limit(50)

// forEachPage calls page for each page of a list. The objects belong to the reader, and must not be changed. Do not pass a limit when reading a cache: it
// returns everything at once, but may still set a continue token.
func forEachPage[T any, List interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, page func(List), options ...client.ListOption) error {
	options = append(options, client.UnsafeDisableDeepCopy)
	paged := (&client.ListOptions{}).ApplyOptions(options).Limit > 0
	for next := ""; ; {
		list := List(new(T)) // decoding into the last page would merge both
		if err := reader.List(ctx, list, append(options, client.Continue(next))...); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
		page(list)
		if next = list.GetContinue(); next == "" || !paged {
			return nil
		}
	}
}
