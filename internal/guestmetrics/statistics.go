package guestmetrics

import (
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/prometheus/client_golang/prometheus"
	v1 "kubevirt.io/api/core/v1"
)

// Factors from the units of libvirt to the units of Prometheus.
const (
	ones        = 1
	nanoseconds = 1e-9
	kibibytes   = 1024
)

// statistic is a metric for one of libvirt's counters.
type statistic struct {
	*metric
	value string
	unit  float64
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// ofGuest returns a statistic with the labels of its VMI and some of its own.
func ofGuest(name string, kind prometheus.ValueType, value string, unit float64, help string, labels ...string) statistic {
	return statistic{newMetric(name, kind, help, append([]string{"node", "namespace", "name"}, labels...)...), value, unit}
}

// The statistics of each group of hypervisor.Statistics.
var (
	memoryStatistics = []statistic{
		ofGuest("kubevirt_vmi_memory_resident_bytes", gauge, "rss", kibibytes, "Memory that the QEMU of the guest has in use on its node."),
		ofGuest("kubevirt_vmi_memory_available_bytes", gauge, "available", kibibytes, "Memory that the system of the guest manages, by its balloon driver."),
		ofGuest("kubevirt_vmi_memory_unused_bytes", gauge, "unused", kibibytes, "Memory that the guest uses for nothing, not even as a cache."),
		ofGuest("kubevirt_vmi_memory_cached_bytes", gauge, "disk_caches", kibibytes, "Memory that the guest uses as a cache of disks and could use otherwise."),
		ofGuest("kubevirt_vmi_memory_usable_bytes", gauge, "usable", kibibytes, "Memory that the guest could give back without swapping: MemAvailable of Linux."),
		ofGuest("kubevirt_vmi_memory_swap_in_traffic_bytes", gauge, "swap_in", kibibytes, "What the guest has read from its swap space since it booted."),
		ofGuest("kubevirt_vmi_memory_swap_out_traffic_bytes", gauge, "swap_out", kibibytes, "What the guest has written to its swap space since it booted."),
		ofGuest("kubevirt_vmi_memory_pgmajfault_total", counter, "major_fault", ones, "Page faults of the guest for which a disk was read."),
		ofGuest("kubevirt_vmi_memory_pgminfault_total", counter, "minor_fault", ones, "Page faults of the guest for which no disk was read."),
		ofGuest("kubevirt_vmi_memory_actual_balloon_bytes", gauge, hypervisor.ValueBalloon, kibibytes, "Memory that the balloon leaves to the guest."),
		ofGuest("kubevirt_vmi_memory_domain_bytes", gauge, "current", kibibytes, "Memory that the domain of the guest has."),
	}
	cpuStatistics = []statistic{
		ofGuest("kubevirt_vmi_cpu_usage_seconds_total", counter, "time", nanoseconds, "CPU time of QEMU, including its vCPUs."),
		ofGuest("kubevirt_vmi_cpu_user_usage_seconds_total", counter, "user", nanoseconds, "CPU time of QEMU in user mode."),
		ofGuest("kubevirt_vmi_cpu_system_usage_seconds_total", counter, "system", nanoseconds, "CPU time of QEMU in the kernel of the node."),
	}
	vcpuSeconds = ofGuest("kubevirt_vmi_vcpu_seconds_total", counter, "time", nanoseconds,
		"CPU time of each vCPU, with the state that the vCPU is in now: running, blocked, offline or unknown.", "id", "state")
	vcpuStatistics = []statistic{
		ofGuest("kubevirt_vmi_vcpu_wait_seconds_total", counter, "wait", nanoseconds, "Time that each vCPU has waited for input and output.", "id"),
		ofGuest("kubevirt_vmi_vcpu_delay_seconds_total", counter, "delay", nanoseconds, "Time that each vCPU was ready to run and had no CPU of the node.", "id"),
	}
	networkTraffic = []statistic{
		ofGuest("kubevirt_vmi_network_traffic_bytes_total", counter, "rx.bytes", ones,
			"Bytes of each interface by direction: rx or tx. KubeVirt has deprecated it.", "interface", "type"),
		ofGuest("kubevirt_vmi_network_traffic_bytes_total", counter, "tx.bytes", ones,
			"Bytes of each interface by direction: rx or tx. KubeVirt has deprecated it.", "interface", "type"),
	}
	networkStatistics = []statistic{
		ofGuest("kubevirt_vmi_network_receive_bytes_total", counter, "rx.bytes", ones, "Bytes that each interface of the guest has received.", "interface"),
		ofGuest("kubevirt_vmi_network_transmit_bytes_total", counter, "tx.bytes", ones, "Bytes that each interface of the guest has sent.", "interface"),
		ofGuest("kubevirt_vmi_network_receive_packets_total", counter, "rx.pkts", ones, "Packets that each interface of the guest has received.", "interface"),
		ofGuest("kubevirt_vmi_network_transmit_packets_total", counter, "tx.pkts", ones, "Packets that each interface of the guest has sent.", "interface"),
		ofGuest("kubevirt_vmi_network_receive_errors_total", counter, "rx.errs", ones, "Packets with errors to each interface of the guest.", "interface"),
		ofGuest("kubevirt_vmi_network_transmit_errors_total", counter, "tx.errs", ones, "Packets with errors of each interface of the guest.", "interface"),
		ofGuest("kubevirt_vmi_network_receive_packets_dropped_total", counter, "rx.drop", ones, "Dropped packets to each interface of the guest.", "interface"),
		ofGuest("kubevirt_vmi_network_transmit_packets_dropped_total", counter, "tx.drop", ones, "Dropped packets of each interface of the guest.", "interface"),
	}
	storageStatistics = []statistic{
		ofGuest("kubevirt_vmi_storage_iops_read_total", counter, "rd.reqs", ones, "Reads of each disk of the guest.", "drive"),
		ofGuest("kubevirt_vmi_storage_iops_write_total", counter, "wr.reqs", ones, "Writes of each disk of the guest.", "drive"),
		ofGuest("kubevirt_vmi_storage_read_traffic_bytes_total", counter, "rd.bytes", ones, "Bytes that were read from each disk of the guest.", "drive"),
		ofGuest("kubevirt_vmi_storage_write_traffic_bytes_total", counter, "wr.bytes", ones, "Bytes that were written to each disk of the guest.", "drive"),
		ofGuest("kubevirt_vmi_storage_read_times_seconds_total", counter, "rd.times", nanoseconds, "Time that reads of each disk of the guest took.", "drive"),
		ofGuest("kubevirt_vmi_storage_write_times_seconds_total", counter, "wr.times", nanoseconds, "Time that writes of each disk of the guest took.", "drive"),
		ofGuest("kubevirt_vmi_storage_flush_requests_total", counter, "fl.reqs", ones, "Flushes of each disk of the guest.", "drive"),
		ofGuest("kubevirt_vmi_storage_flush_times_seconds_total", counter, "fl.times", nanoseconds, "Time that flushes of each disk of the guest took.", "drive"),
	}
)

// allStatistics returns all metrics of this file, each once.
func allStatistics() []statistic {
	return slices.Concat(memoryStatistics, cpuStatistics, []statistic{vcpuSeconds}, vcpuStatistics, networkTraffic[:1], networkStatistics, storageStatistics)
}

// sendStatistics sends the statistics that a launcher reports of a VMI's guest. A tenant may control the launcher, so it sends only series of this VMI, and
// only for vCPUs, disks and interfaces in its spec. A counter that libvirt does not report has no series.
func sendStatistics(all chan<- prometheus.Metric, vmi *v1.VirtualMachineInstance, reported hypervisor.Statistics) {
	send := func(list []statistic, values hypervisor.Values, labels ...string) {
		for _, s := range list {
			if value, has := values[s.value]; has {
				s.sendValue(all, float64(value)*s.unit, append([]string{vmi.Status.NodeName, vmi.Namespace, vmi.Name}, labels...)...)
			}
		}
	}
	send(memoryStatistics, reported.Memory)
	send(cpuStatistics, reported.CPU)
	for label, values := range reported.VCPUs {
		if id, err := strconv.Atoi(label); err != nil || id < 0 || id >= countVCPUs(vmi) || strconv.Itoa(id) != label {
			continue
		}
		send([]statistic{vcpuSeconds}, values, label, vcpuState(values))
		send(vcpuStatistics, values, label)
	}
	devices := &vmi.Spec.Domain.Devices
	for i := range devices.Interfaces {
		name := devices.Interfaces[i].Name
		send(networkTraffic[:1], reported.NICs[name], name, "rx")
		send(networkTraffic[1:], reported.NICs[name], name, "tx")
		send(networkStatistics, reported.NICs[name], name)
	}
	for i := range devices.Disks {
		name := devices.Disks[i].Name
		send(storageStatistics, reported.Disks[name], name)
	}
}

// countVCPUs returns the largest number of vCPUs that a guest may have.
func countVCPUs(vmi *v1.VirtualMachineInstance) int {
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil {
		return 1
	}
	return int(max(cpu.Sockets, cpu.MaxSockets, 1) * max(cpu.Cores, 1) * max(cpu.Threads, 1))
}

// vcpuState returns the name of an element of libvirt's enum virVcpuState.
func vcpuState(values hypervisor.Values) string {
	state, has := values[hypervisor.ValueState]
	if names := []string{"offline", "running", "blocked"}; has && state < uint64(len(names)) {
		return names[state]
	}
	return "unknown"
}
