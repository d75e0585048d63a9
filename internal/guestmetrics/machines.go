package guestmetrics

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/command"
	"github.com/kilnvm/kiln/internal/guestagent"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The metrics of VMs and VMIs.
var (
	vmInfo = newMetric("kubevirt_vm_info", gauge, "Always 1. The labels describe a VirtualMachine.", "name", "namespace", "os", "workload", "flavor",
		"machine_type",
		"instance_type", "preference", "status", "status_group")
	vmCreated  = newMetric("kubevirt_vm_create_date_timestamp_seconds", gauge, "Unix time at which a VirtualMachine was created.", "name", "namespace")
	vmRequests = newMetric("kubevirt_vm_resource_requests", gauge, "What the guest of a VirtualMachine has, while there is a VirtualMachineInstance: "+
		"cores, sockets "+
		"and threads (source domain), vCPUs (unit cores) and memory (source guest_effective).", "name", "namespace", "resource", "unit", "source")
	vmiInfo = newMetric("kubevirt_vmi_info", gauge, "Always 1. The labels describe a VirtualMachineInstance.", "node", "namespace", "name", "phase", "os",
		"workload",
		"flavor", "instance_type", "preference", "guest_os_kernel_release", "guest_os_machine", "guest_os_arch", "guest_os_name", "guest_os_version_id", "evictable",
		"outdated", "vmi_pod")
)

// statusGroup is a group of printable statuses, and the metric with the time at which a VM with one of these statuses changed last.
type statusGroup struct {
	name     string
	since    *metric
	statuses []v1.VirtualMachinePrintableStatus
}

func groupOf(name string, statuses ...v1.VirtualMachinePrintableStatus) statusGroup {
	return statusGroup{name, newMetric("kubevirt_vm_"+name+"_status_last_transition_timestamp_seconds", counter,
		"Unix time at which a condition of a VirtualMachine with such a status changed last; 0 for one with another status.", "name", "namespace"), statuses}
}

// groups are KubeVirt's groups of statuses. The last one also has the statuses that KubeVirt does not know.
var groups = []statusGroup{
	groupOf("starting", v1.VirtualMachineStatusProvisioning, v1.VirtualMachineStatusStarting, v1.VirtualMachineStatusWaitingForVolumeBinding),
	groupOf("running", v1.VirtualMachineStatusRunning),
	groupOf("migrating", v1.VirtualMachineStatusMigrating),
	groupOf("non_running", v1.VirtualMachineStatusStopped, v1.VirtualMachineStatusPaused, v1.VirtualMachineStatusStopping, v1.VirtualMachineStatusTerminating),
	groupOf("error", v1.VirtualMachineStatusCrashLoopBackOff, v1.VirtualMachineStatusUnknown, v1.VirtualMachineStatusUnschedulable,
		v1.VirtualMachineStatusErrImagePull, v1.VirtualMachineStatusImagePullBackOff, v1.VirtualMachineStatusPvcNotFound, v1.VirtualMachineStatusDataVolumeError),
}

// unnamed stands for an instancetype or preference that a tenant may have named. KubeVirt names only the objects of some vendors.
const unnamed = "<other>"

// longestLabel bounds a label value that a tenant or a guest writes, in characters.
const longestLabel = v1alpha1.LongestAgentText

// Machines collects the metrics of the VMs and VMIs in the leader's cache. It is a manager.Runnable and a prometheus.Collector. It is empty in replicas that
// do not lead.
type Machines struct {
	cache  cache.Cache
	stores atomic.Pointer[machineStores]
}

// machineStores are the stores of the controllers' informers.
type machineStores struct{ vms, vmis toolscache.Store }

// NewMachines returns a collector that reads the cache of the controllers.
func NewMachines(of cache.Cache) *Machines { return &Machines{cache: of} }

// Start makes the collector read the cache until the context ends. A manager runs it only in the leader.
func (m *Machines) Start(ctx context.Context) error {
	var found machineStores
	if err := command.InformerStores(ctx, m.cache, map[client.Object]*toolscache.Store{
		&v1.VirtualMachine{}: &found.vms, &v1.VirtualMachineInstance{}: &found.vmis,
	}); err != nil {
		return err
	}
	m.stores.Store(&found)
	<-ctx.Done()
	m.stores.Store(nil)
	return nil
}

// machineMetrics returns all metrics of this file.
func machineMetrics() []*metric {
	all := []*metric{vmInfo, vmCreated, vmRequests, vmiInfo}
	for _, group := range groups {
		all = append(all, group.since)
	}
	return all
}

// Describe implements prometheus.Collector.
func (*Machines) Describe(all chan<- *prometheus.Desc) {
	for _, one := range machineMetrics() {
		all <- one.desc
	}
}

// Collect implements prometheus.Collector. It reads objects of the cache without copying them.
func (m *Machines) Collect(all chan<- prometheus.Metric) {
	found := m.stores.Load()
	if found == nil {
		return
	}
	for _, object := range found.vms.List() {
		if vm, is := object.(*v1.VirtualMachine); is {
			sendVM(all, vm, found.vmiOf(vm))
		}
	}
	for _, object := range found.vmis.List() {
		if vmi, is := object.(*v1.VirtualMachineInstance); is {
			sendVMI(all, vmi, found.vmOf(vmi))
		}
	}
}

// vmiOf returns the VMI of a VM; nil if it does not exist.
func (s *machineStores) vmiOf(vm *v1.VirtualMachine) *v1.VirtualMachineInstance {
	object, _, _ := s.vmis.GetByKey(vm.Namespace + "/" + vm.Name)
	if vmi, is := object.(*v1.VirtualMachineInstance); is && metav1.IsControlledBy(vmi, vm) {
		return vmi
	}
	return nil
}

// vmOf returns the VM of a VMI; nil if the VMI has no VM.
func (s *machineStores) vmOf(vmi *v1.VirtualMachineInstance) *v1.VirtualMachine {
	object, _, _ := s.vms.GetByKey(vmi.Namespace + "/" + vmi.Name)
	if vm, is := object.(*v1.VirtualMachine); is && metav1.IsControlledBy(vmi, vm) {
		return vm
	}
	return nil
}

func sendVM(all chan<- prometheus.Metric, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) {
	system, machine := systemOf(nil), ""
	if vm.Spec.Template != nil {
		system = systemOf(vm.Spec.Template.ObjectMeta.Annotations)
	}
	if vmi != nil && vmi.Status.Machine != nil {
		machine = boundedText(vmi.Status.Machine.Type)
	}
	status := cmp.Or(vm.Status.PrintableStatus, v1.VirtualMachineStatusStopped)
	current := slices.IndexFunc(groups, func(g statusGroup) bool { return slices.Contains(g.statuses, status) })
	name, since := "<unknown>", len(groups)-1
	if current >= 0 {
		name, since = groups[current].name, current
	}
	vmInfo.sendValue(all, 1, vm.Name, vm.Namespace, system.os, system.workload, system.flavor, machine, instancetypeOf(vm), preferenceOf(vm),
		strings.ToLower(boundedText(string(status))), name)
	vmCreated.sendValue(all, float64(vm.CreationTimestamp.Unix()), vm.Name, vm.Namespace)
	for i, group := range groups {
		value := 0.0
		if i == since {
			value = lastChange(vm)
		}
		group.since.sendValue(all, value, vm.Name, vm.Namespace)
	}
	if vmi != nil {
		sendRequests(all, vmi)
	}
}

// sendRequests sends the CPUs and the memory of a VMI's guest, from its explicit spec.
func sendRequests(all chan<- prometheus.Metric, vmi *v1.VirtualMachineInstance) {
	send := func(value float64, labels ...string) {
		vmRequests.sendValue(all, value, append([]string{vmi.Name, vmi.Namespace}, labels...)...)
	}
	if cpu := vmi.Spec.Domain.CPU; cpu != nil {
		sockets, cores, threads := max(cpu.Sockets, 1), max(cpu.Cores, 1), max(cpu.Threads, 1)
		send(float64(cores), "cpu", "cores", "domain")
		send(float64(sockets), "cpu", "sockets", "domain")
		send(float64(threads), "cpu", "threads", "domain")
		send(float64(sockets)*float64(cores)*float64(threads), "cpu", "cores", "guest_effective")
	}
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		send(float64(memory.Guest.Value()), "memory", "bytes", "guest_effective")
	}
}

func sendVMI(all chan<- prometheus.Metric, vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine) {
	of, preference := unnamedOf(vmi.Annotations, v1.InstancetypeAnnotation, v1.ClusterInstancetypeAnnotation),
		unnamedOf(vmi.Annotations, v1.PreferenceAnnotation, v1.ClusterPreferenceAnnotation)
	if vm != nil {
		of, preference = instancetypeOf(vm), preferenceOf(vm)
	}
	system, guest, machine, launcher := systemOf(vmi.Annotations), vmi.Status.GuestOSInfo, "", ""
	if vmi.Status.Machine != nil {
		machine = boundedText(vmi.Status.Machine.Type)
	}
	if len(vmi.Status.ActivePods) > 0 && vmi.Status.Phase == v1.Running {
		launcher = pod.Name(vmi.Name)
	}
	_, outdated := vmi.Labels[v1.OutdatedLauncherImageLabel]
	// An eviction shuts the guest down, whatever its evictionStrategy: no guest of Kiln keeps a node from being drained.
	const evictable = "true"
	vmiInfo.sendValue(all, 1, vmi.Status.NodeName, vmi.Namespace, vmi.Name, strings.ToLower(string(cmp.Or(vmi.Status.Phase, v1.Pending))), system.os,
		system.workload, system.flavor, of, preference, boundedText(guest.KernelRelease), machine, boundedText(guest.Machine), boundedText(guest.Name),
		boundedText(guest.VersionID), evictable, strconv.FormatBool(outdated), launcher)
}

// boundedText returns the value of a label that a tenant or a guest writes.
func boundedText(value string) string { return guestagent.Text(value, longestLabel) }

// system has the values of annotations that KubeVirt's templates set.
type system struct{ os, workload, flavor string }

func systemOf(annotations map[string]string) system {
	const prefix = "vm.kubevirt.io/"
	return system{boundedText(annotations[prefix+"os"]), boundedText(annotations[prefix+"workload"]), boundedText(annotations[prefix+"flavor"])}
}

// instancetypeOf returns the label of a VM's instancetype, preferenceOf of its preference.
func instancetypeOf(vm *v1.VirtualMachine) string {
	return catalogLabel(vm.Spec.Instancetype != nil, vm.Status.InstancetypeRef, instancetype.Kinds)
}

func preferenceOf(vm *v1.VirtualMachine) string {
	return catalogLabel(vm.Spec.Preference != nil, vm.Status.PreferenceRef, instancetype.PreferenceKinds)
}

// catalogLabel returns the name of a cluster-wide object that a VM is pinned to. It returns unnamed for a namespaced object, and for one without a revision,
// which may not exist: a tenant may have chosen both names.
func catalogLabel(has bool, ref *v1.InstancetypeStatusRef, kinds instancetype.KindNames) string {
	switch {
	case !has:
		return ""
	case ref == nil || ref.ControllerRevisionRef == nil || kinds.Canonical(ref.Kind) != kinds.Cluster:
		return unnamed
	}
	return boundedText(ref.Name)
}

// unnamedOf returns the label of the instancetype or preference of a VMI without a VM: unnamed if one of the annotations is set.
func unnamedOf(annotations map[string]string, keys ...string) string {
	for _, key := range keys {
		if annotations[key] != "" {
			return unnamed
		}
	}
	return ""
}

// lastChange returns the Unix time at which one of the conditions that KubeVirt reads changed last; 0 if the VM has none of them.
func lastChange(vm *v1.VirtualMachine) float64 {
	latest := int64(0)
	for _, c := range vm.Status.Conditions {
		if slices.Contains([]v1.VirtualMachineConditionType{v1.VirtualMachineReady, v1.VirtualMachineFailure, v1.VirtualMachinePaused}, c.Type) {
			latest = max(latest, c.LastTransitionTime.Unix())
		}
	}
	return float64(latest)
}
