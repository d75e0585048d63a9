// Package objectread reads the objects of one VM for package startcheck. What the caller may not read is noted with the right that is missing, and hides
// nothing else. It writes nothing.
package objectread

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/workbench/startcheck"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostEvents bounds the events that are read of one object. Kubernetes repeats an event instead of writing another one.
const mostEvents = 100

// mostPods bounds the pods that are read of one VMI. A tenant may create any number with its label.
const mostPods = 100

// reader reads objects of one namespace. Its first fault, such as a connection that is refused, ends all further reads.
type reader struct {
	client.Reader
	namespace string
	fault     error
}

// Which says which objects a user has named.
type Which int

// Kinds of names.
const (
	// Either names a VM, or a VMI if there is no such VM.
	Either Which = iota
	// VM names a VM.
	VM
	// VMI names a VMI, or the VM whose VMI it is or would be.
	VMI
)

// ReadObjects reads the objects of a VM or VMI. It fails if neither exists, if the caller may read neither, or if the cluster does not answer.
func ReadObjects(ctx context.Context, cluster client.Reader, key types.NamespacedName, which Which) (startcheck.Objects, error) {
	r := &reader{Reader: cluster, namespace: key.Namespace}
	o := startcheck.Objects{Namespace: key.Namespace, Name: key.Name, Now: time.Now()}
	o.VM = readOne(ctx, r, "virtualmachines", key.Name, &v1.VirtualMachine{})
	o.VMI = readOne(ctx, r, "virtualmachineinstances", key.Name, &v1.VirtualMachineInstance{})
	if r.fault != nil {
		return o, r.fault
	}
	if vm, vmi := o.VM.Object, o.VMI.Object; vm != nil && vmi != nil && !metav1.IsControlledBy(vmi, vm) {
		if which == VMI { // a VMI of the same name that the VM has not made
			o.VM = startcheck.Lookup[v1.VirtualMachine]{}
		} else {
			o.VMI = startcheck.Lookup[v1.VirtualMachineInstance]{}
		}
	}
	if err := checkNamed(o, which); err != nil {
		return o, err
	}
	r.readRest(ctx, &o)
	return o, r.fault
}

// checkNamed returns an error if what the user has named does not exist, or cannot be read at all.
func checkNamed(o startcheck.Objects, which Which) error {
	switch {
	case o.VM.Object != nil || o.VMI.Object != nil && which != VM:
		return nil
	case o.VM.Unserved && o.VMI.Unserved:
		return fmt.Errorf("the cluster has no VirtualMachines: install KubeVirt's definitions or Kiln")
	case o.VM.Denied != "" && o.VMI.Object != nil:
		return nil
	case o.VM.Denied != "":
		return fmt.Errorf("%s: ask for this right", o.VM.Denied)
	case which == VM:
		return fmt.Errorf("there is no VirtualMachine '%s' in namespace '%s': choose the namespace with -n", o.Name, o.Namespace)
	}
	return fmt.Errorf("there is neither a VirtualMachine nor a VirtualMachineInstance '%s' in namespace '%s': choose the namespace with -n", o.Name, o.Namespace)
}

// readRest reads what the VM and the VMI lead to.
func (r *reader) readRest(ctx context.Context, o *startcheck.Objects) {
	o.Runtime = r.findRuntime(ctx, *o)
	if o.VM.Object != nil {
		o.References = startcheck.ReferencesOf(o.VM.Object)
		for i := range o.References {
			o.References[i].Found = r.readReference(ctx, o.References[i])
		}
	}
	if vmi := o.VMI.Object; vmi != nil {
		o.Pods = readList(ctx, r, "pods", &corev1.PodList{}, client.MatchingLabels{v1.CreatedByLabel: string(vmi.UID)}, client.Limit(mostPods))
	}
	r.readVolumes(ctx, o)
	o.Networks = map[string]startcheck.Lookup[metav1.PartialObjectMetadata]{}
	for _, n := range startcheck.NetworksOf(o.Namespace, o.GuestSpec()) {
		o.Networks[n.String()] = r.readMetadata(ctx, networkKind, "network-attachment-definitions.k8s.cni.cncf.io", n.Namespace, n.Name)
	}
	if pod := o.LauncherPod(); pod != nil && pod.Spec.NodeName != "" {
		o.Node = getIn(ctx, r, "nodes", "", pod.Spec.NodeName, &corev1.Node{})
	}
	r.readEvents(ctx, o)
}

var networkKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// findRuntime finds out who runs the guests. A tenant may not read that, but KubeVirt's controller puts a finalizer on each VM, and its pods have other names.
func (r *reader) findRuntime(ctx context.Context, o startcheck.Objects) startcheck.Runtime {
	if o.VM.Object != nil && slices.Contains(o.VM.Object.Finalizers, v1.VirtualMachineControllerFinalizer) {
		return startcheck.RuntimeKubeVirt
	}
	switch kubevirt, err := installed.RunsGuests(ctx, installed.Auto, r.Reader); {
	case err != nil:
		return ""
	case kubevirt:
		return startcheck.RuntimeKubeVirt
	}
	return startcheck.RuntimeKiln
}

// readReference looks up the revision of a reference, or its object if the VM is not pinned. An instancetype that is inferred from a volume has no name at
// first.
func (r *reader) readReference(ctx context.Context, ref startcheck.Reference) startcheck.Lookup[metav1.PartialObjectMetadata] {
	kind, resource, namespace, name := v1beta1.SchemeGroupVersion.WithKind(ref.Kind), "", r.namespace, ref.Name
	switch {
	case ref.Revision != "":
		kind, resource, name = appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), "controllerrevisions.apps", ref.Revision
	case ref.Name == "":
		return startcheck.Lookup[metav1.PartialObjectMetadata]{Object: &metav1.PartialObjectMetadata{}}
	default:
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resource = plural.Resource + "." + plural.Group
		if ref.OfCluster() {
			namespace = ""
		}
	}
	return r.readMetadata(ctx, kind, resource, namespace, name)
}

// readVolumes reads the claims of the guest, their DataVolumes and their storage classes.
func (r *reader) readVolumes(ctx context.Context, o *startcheck.Objects) {
	o.Claims = map[string]startcheck.Lookup[corev1.PersistentVolumeClaim]{}
	o.DataVolumes = map[string]startcheck.Lookup[cdi.DataVolume]{}
	o.Classes = map[string]startcheck.Lookup[storagev1.StorageClass]{}
	for _, name := range startcheck.ClaimsOf(o.GuestSpec()) {
		claim := readOne(ctx, r, "persistentvolumeclaims", name, &corev1.PersistentVolumeClaim{})
		o.Claims[name] = claim
		o.DataVolumes[name] = r.dataVolume(ctx, name)
		if claim.Object == nil || claim.Object.Status.Phase == corev1.ClaimBound || claim.Object.Spec.StorageClassName == nil {
			continue
		}
		class := *claim.Object.Spec.StorageClassName
		if _, known := o.Classes[class]; !known && class != "" {
			o.Classes[class] = getIn(ctx, r, "storageclasses.storage.k8s.io", "", class, &storagev1.StorageClass{})
		}
	}
}

// dataVolume reads a DataVolume. CDI's types are not in the scheme of commands, because its API may not be installed.
func (r *reader) dataVolume(ctx context.Context, name string) (found startcheck.Lookup[cdi.DataVolume]) {
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(cdi.SchemeGroupVersion.WithKind("DataVolume"))
	read := getIn(ctx, r, "datavolumes.cdi.kubevirt.io", r.namespace, name, untyped)
	found.Denied, found.Unserved = read.Denied, read.Unserved
	if read.Object == nil {
		return found
	}
	typed := &cdi.DataVolume{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object.Object, typed); err != nil {
		found.Denied = fmt.Sprintf("DataVolume '%s' is not one of %s", name, cdi.SchemeGroupVersion)
		return found
	}
	found.Object = typed
	return found
}

// readEvents reads the events about the VM, the VMI, its pod, and the claims and DataVolumes that are not ready.
func (r *reader) readEvents(ctx context.Context, o *startcheck.Objects) {
	var about []types.UID
	if o.VM.Object != nil {
		about = append(about, o.VM.Object.UID)
	}
	if o.VMI.Object != nil {
		about = append(about, o.VMI.Object.UID)
	}
	if pod := o.LauncherPod(); pod != nil {
		about = append(about, pod.UID)
	}
	for _, name := range startcheck.ClaimsOf(o.GuestSpec()) {
		if claim := o.Claims[name].Object; claim != nil && claim.Status.Phase != corev1.ClaimBound {
			about = append(about, claim.UID)
		}
		if dv := o.DataVolumes[name].Object; dv != nil && dv.Status.Phase != cdi.Succeeded {
			about = append(about, dv.UID)
		}
	}
	all := &corev1.EventList{}
	for _, uid := range about {
		if uid == "" {
			continue
		}
		found := readList(ctx, r, "events", &corev1.EventList{}, client.MatchingFields{"involvedObject.uid": string(uid)}, client.Limit(mostEvents))
		if found.Object == nil {
			o.Events = found
			return
		}
		all.Items = append(all.Items, found.Object.Items...)
	}
	o.Events.Object = all
}

// readMetadata reads the metadata of an object.
func (r *reader) readMetadata(ctx context.Context, kind schema.GroupVersionKind, resource, namespace,
	name string) startcheck.Lookup[metav1.PartialObjectMetadata] {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return getIn(ctx, r, resource, namespace, name, object)
}

// readOne reads an object of the namespace.
func readOne[T any, O interface {
	*T
	client.Object
}](ctx context.Context, r *reader, resource, name string, into O) startcheck.Lookup[T] {
	return getIn(ctx, r, resource, r.namespace, name, into)
}

// getIn reads an object of a namespace, or of the cluster if the namespace is empty.
func getIn[T any, O interface {
	*T
	client.Object
}](ctx context.Context, r *reader, resource, namespace, name string, into O) (found startcheck.Lookup[T]) {
	// A VM may refer to any text. A text that cannot be a name would be an error of the client.
	if r.fault != nil || name == "" || len(content.IsPathSegmentName(name))+len(content.IsPathSegmentName(namespace)) > 0 {
		return found
	}
	err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if err == nil {
		found.Object = into
		return found
	}
	found.Denied, found.Unserved = r.describeError(err, "get", resource, namespace)
	return found
}

// readList reads a list of the namespace.
func readList[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, r *reader, resource string, into L, options ...client.ListOption) (found startcheck.Lookup[T]) {
	if r.fault != nil {
		return found
	}
	err := r.List(ctx, into, append(options, client.InNamespace(r.namespace))...)
	if err == nil {
		found.Object = into
		return found
	}
	found.Denied, found.Unserved = r.describeError(err, "list", resource, r.namespace)
	return found
}

// describeError returns the right that is missing, and whether the kind is not served. Any other error except 'not found' is a fault of the whole run.
func (r *reader) describeError(err error, verb, resource, namespace string) (denied string, unserved bool) {
	switch {
	case apierrors.IsForbidden(err):
		where := "in the cluster"
		if namespace != "" {
			where = fmt.Sprintf("in namespace '%s'", namespace)
		}
		return fmt.Sprintf("you may not %s %s %s", verb, resource, where), false
	case meta.IsNoMatchError(err):
		return "", true
	case apierrors.IsNotFound(err):
		return "", false
	}
	r.fault = err
	return "", false
}
