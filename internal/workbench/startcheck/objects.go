package startcheck

import (
	"cmp"
	"slices"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Runtime is who makes VMIs and runs guests.
type Runtime string

// Runtimes. The zero value means that the caller may not read who it is.
const (
	RuntimeKubeVirt Runtime = "KubeVirt"
	RuntimeKiln     Runtime = "Kiln"
)

// Lookup is the outcome of the read of an object or a list.
type Lookup[T any] struct {
	// Object is nil if the object does not exist, or was not read.
	Object *T
	// Denied is the right that the caller lacks, such as "you may not list pods in namespace 'shop'"; empty if the caller may read the object.
	Denied string
	// Unserved reports that the cluster does not serve the kind.
	Unserved bool
}

// isAbsent reports whether the object does not exist.
func (l Lookup[T]) isAbsent() bool { return l.Object == nil && l.Denied == "" }

// Objects are the objects of one VM. Claims, DataVolumes, storage classes and networks have an entry for each name that was looked up.
type Objects struct {
	Namespace, Name string
	// Now is the current time. A wait is a fault only after some time.
	Now     time.Time
	Runtime Runtime
	VM      Lookup[v1.VirtualMachine]
	// VMI is the VMI of the VM, or a VMI without a VM.
	VMI Lookup[v1.VirtualMachineInstance]
	// References are what References of this package returned, with the objects that were looked up.
	References []Reference
	// Pods are the pods that were created for the VMI.
	Pods Lookup[corev1.PodList]
	// Events are events about these objects. Events of others do no harm.
	Events      Lookup[corev1.EventList]
	Claims      map[string]Lookup[corev1.PersistentVolumeClaim]
	DataVolumes map[string]Lookup[cdi.DataVolume]
	Classes     map[string]Lookup[storagev1.StorageClass]
	// Networks are NetworkAttachmentDefinitions, by NAMESPACE/NAME.
	Networks map[string]Lookup[metav1.PartialObjectMetadata]
	// Node is the node of the pod.
	Node Lookup[corev1.Node]
}

// titleOfVM returns the kind, namespace and name of the VM, or of a VMI without a VM.
func (o Objects) titleOfVM() string {
	kind := "VirtualMachine"
	if !o.hasVM() {
		kind = "VirtualMachineInstance"
	}
	return kind + " " + oneLine(o.Namespace) + "/" + oneLine(o.Name)
}

// hasVM reports whether there is a VM, or may be one that the caller cannot read.
func (o Objects) hasVM() bool { return !o.VM.isAbsent() }

// GuestSpec returns the spec of the guest: of the VMI, or of the template of a VM without a VMI. It is nil if the caller may read neither.
func (o Objects) GuestSpec() *v1.VirtualMachineInstanceSpec {
	switch {
	case o.VMI.Object != nil:
		return &o.VMI.Object.Spec
	case o.VM.Object != nil && o.VM.Object.Spec.Template != nil:
		return &o.VM.Object.Spec.Template.Spec
	}
	return nil
}

// isRunning reports whether the guest runs, maybe paused. KubeVirt and Kiln set the phase when the domain was started.
func (o Objects) isRunning() bool {
	return o.VMI.Object != nil && o.VMI.Object.Status.Phase == v1.Running && o.VMI.Object.DeletionTimestamp == nil
}

// conditionOfVMI returns a condition of the VMI; nil if it does not exist.
func (o Objects) conditionOfVMI(of v1.VirtualMachineInstanceConditionType) *v1.VirtualMachineInstanceCondition {
	if o.VMI.Object == nil {
		return nil
	}
	return condition.Of(o.VMI.Object, of)
}

// falseCondition returns a condition of the VMI that is False; nil if it does not exist.
func (o Objects) falseCondition(of v1.VirtualMachineInstanceConditionType) *v1.VirtualMachineInstanceCondition {
	if c := o.conditionOfVMI(of); c != nil && c.Status == corev1.ConditionFalse {
		return c
	}
	return nil
}

// conditionOfVM returns a condition of the VM; nil if it does not exist.
func (o Objects) conditionOfVM(of v1.VirtualMachineConditionType) *v1.VirtualMachineCondition {
	if o.VM.Object == nil {
		return nil
	}
	for i := range o.VM.Object.Status.Conditions {
		if c := &o.VM.Object.Status.Conditions[i]; c.Type == of {
			return c
		}
	}
	return nil
}

// failureOfVM returns condition Failure of the VM while it is True; nil otherwise.
func (o Objects) failureOfVM() *v1.VirtualMachineCondition {
	if c := o.conditionOfVM(v1.VirtualMachineFailure); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

// newestEvent returns the newest event about an object with one of these reasons; nil if it does not exist. An object without a UID has no events.
func (o Objects) newestEvent(of metav1.Object, reasons ...string) *corev1.Event {
	if o.Events.Object == nil || of.GetUID() == "" {
		return nil
	}
	var newest *corev1.Event
	for i := range o.Events.Object.Items {
		e := &o.Events.Object.Items[i]
		if e.InvolvedObject.UID == of.GetUID() && slices.Contains(reasons, e.Reason) && (newest == nil || lastSeen(e).After(lastSeen(newest))) {
			newest = e
		}
	}
	return newest
}

// lastSeen returns when an event happened last.
func lastSeen(e *corev1.Event) time.Time {
	at := []time.Time{e.CreationTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		at = append(at, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(at, time.Time.Compare)
}

// olderThan reports whether a time is known and older than the given duration.
func (o Objects) olderThan(at time.Time, d time.Duration) bool {
	return !at.IsZero() && o.Now.Sub(at) > d
}

// patience is how long a controller, the scheduler or kubelet has for its work before silence is a fault.
const patience = time.Minute

// lastWrite returns when an object was written last, as far as its fields tell.
func lastWrite(of metav1.Object) time.Time {
	at := of.GetCreationTimestamp().Time
	for _, entry := range of.GetManagedFields() {
		if entry.Time != nil && entry.Subresource == "" && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// deletionHangs reports whether the deletion of an object takes longer than its guest has to power off.
func (o Objects) deletionHangs(of metav1.Object, grace *int64) bool {
	deleted := of.GetDeletionTimestamp()
	if deleted == nil {
		return false
	}
	seconds := v1.DefaultGracePeriodSeconds
	if grace != nil {
		seconds = *grace
	}
	return o.olderThan(deleted.Time, time.Duration(min(max(seconds, 0), int64(time.Hour/time.Second)))*time.Second+patience)
}

// controllerName returns who makes VMIs and pods.
func (o Objects) controllerName() string {
	return cmp.Or(map[Runtime]string{RuntimeKubeVirt: "virt-controller", RuntimeKiln: "Kiln's controller"}[o.Runtime], "virt-controller or Kiln's controller")
}
