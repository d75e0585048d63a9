package lifecycle

import (
	"context"
	"sync/atomic"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	vmsDesc  = prometheus.NewDesc("kiln_virtualmachines", "VirtualMachines by status.printableStatus, from the leader's cache.", []string{"status"}, nil)
	vmisDesc = prometheus.NewDesc("kiln_virtualmachineinstances", "VirtualMachineInstances by status.phase, from the leader's cache.",
		[]string{"phase"}, nil)
	recordsDesc = prometheus.NewDesc("kiln_guesthardwares",
		"GuestHardware objects, which are the hardware records of VMs, from the leader's cache.", nil, nil)
	revisionsDesc = prometheus.NewDesc("kiln_controllerrevisions",
		"ControllerRevisions that VMs can be pinned to, by state: used, or marked by the collector as unused; from the leader's cache.", []string{"state"}, nil)
	unpinnedDesc = prometheus.NewDesc("kiln_virtualmachines_unpinned",
		"VirtualMachines that cannot start because their instancetype or preference, or the source to infer it from, does not exist yet.", nil, nil)
	oldestDesc = prometheus.NewDesc("kiln_virtualmachines_unpinned_oldest_timestamp_seconds",
		"Unix time at which the oldest VirtualMachine without a pin was created; absent if all have one.", nil, nil)
)

// otherValue is the label of values that this version does not know, such as a status of a later KubeVirt: the owner of an object must not be able to create a
// series.
const otherValue = "Other"

var (
	statuses = []string{
		string(v1.VirtualMachineStatusStopped), string(v1.VirtualMachineStatusProvisioning), string(v1.VirtualMachineStatusStarting),
		string(v1.VirtualMachineStatusRunning), string(v1.VirtualMachineStatusPaused), string(v1.VirtualMachineStatusStopping),
		string(v1.VirtualMachineStatusTerminating), string(v1.VirtualMachineStatusCrashLoopBackOff), string(v1.VirtualMachineStatusMigrating),
		string(v1.VirtualMachineStatusUnknown), string(v1.VirtualMachineStatusUnschedulable), string(v1.VirtualMachineStatusErrImagePull),
		string(v1.VirtualMachineStatusImagePullBackOff), string(v1.VirtualMachineStatusPvcNotFound), string(v1.VirtualMachineStatusDataVolumeError),
		string(v1.VirtualMachineStatusWaitingForVolumeBinding), otherValue,
	}
	phases = []string{
		string(v1.Pending), string(v1.Scheduling), string(v1.Scheduled), string(v1.Running), string(v1.Succeeded), string(v1.Failed), string(v1.Unknown),
		string(v1.WaitingForSync), otherValue,
	}
)

// Counts counts the objects of the leader's cache, without copying them. It is a manager.Runnable and a prometheus.Collector. Replicas that do not lead report
// nothing, so that a sum over replicas is correct.
type Counts struct {
	cache    cache.Cache
	unpinned *unpinnedVMs
	stores   atomic.Pointer[informerStores]
}

// informerStores are the stores of the controllers' informers.
type informerStores struct{ vms, vmis, records, revisions toolscache.Store }

// Start makes the stores of the informers available to Collect until the context ends. Only the leader runs it, because Counts does not implement
// NeedLeaderElection: the leader's controllers start the informers.
func (c *Counts) Start(ctx context.Context) error {
	hardware := &metav1.PartialObjectMetadata{}
	hardware.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	var found informerStores
	if err := command.InformerStores(ctx, c.cache, map[client.Object]*toolscache.Store{
		&v1.VirtualMachine{}: &found.vms, &v1.VirtualMachineInstance{}: &found.vmis, hardware: &found.records, &appsv1.ControllerRevision{}: &found.revisions,
	}); err != nil {
		return err
	}
	c.stores.Store(&found)
	<-ctx.Done()
	c.stores.Store(nil)
	return nil
}

// Describe implements prometheus.Collector.
func (c *Counts) Describe(all chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{vmsDesc, vmisDesc, recordsDesc, revisionsDesc, unpinnedDesc, oldestDesc} {
		all <- desc
	}
}

// Collect implements prometheus.Collector. Every label value has a series, so that a status that no VM has is 0 and not absent.
func (c *Counts) Collect(all chan<- prometheus.Metric) {
	found := c.stores.Load()
	if found == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for status, n := range countByValue(found.vms, statuses, printableStatusOf) {
		gauge(vmsDesc, n, status)
	}
	for phase, n := range countByValue(found.vmis, phases, phaseOf) {
		gauge(vmisDesc, n, phase)
	}
	for state, n := range countByValue(found.revisions, []string{"used", "marked"}, revisionUse) {
		gauge(revisionsDesc, n, state)
	}
	gauge(recordsDesc, float64(len(found.records.ListKeys())))
	n, oldest := c.unpinned.oldest()
	gauge(unpinnedDesc, float64(n))
	if n > 0 {
		gauge(oldestDesc, float64(oldest.Unix()))
	}
}

// countByValue counts the objects of a store by a closed list of values. Objects with another value count as otherValue.
func countByValue(store toolscache.Store, values []string, of func(any) string) map[string]float64 {
	counted := map[string]float64{}
	for _, value := range values {
		counted[value] = 0
	}
	for _, object := range store.List() { // pointers to the cached objects
		value := of(object)
		if _, known := counted[value]; !known {
			value = otherValue
		}
		counted[value]++
	}
	return counted
}

// printableStatusOf returns the printable status of a VM. A new VM that no controller has seen has no status, and counts as stopped.
func printableStatusOf(object any) string {
	vm, ok := object.(*v1.VirtualMachine)
	if ok && vm.Status.PrintableStatus == "" {
		return string(v1.VirtualMachineStatusStopped)
	}
	if ok {
		return string(vm.Status.PrintableStatus)
	}
	return otherValue
}

// phaseOf returns the phase of a VMI. A new VMI has no phase, and counts as pending.
func phaseOf(object any) string {
	vmi, ok := object.(*v1.VirtualMachineInstance)
	if ok && vmi.Status.Phase == v1.VmPhaseUnset {
		return string(v1.Pending)
	}
	if ok {
		return string(vmi.Status.Phase)
	}
	return otherValue
}

// revisionUse returns 'marked' for a revision that the collector has marked as unused, otherwise 'used'.
func revisionUse(object any) string {
	r, err := meta.Accessor(object)
	if err == nil && revision.Marked(r) {
		return "marked"
	}
	return "used"
}
