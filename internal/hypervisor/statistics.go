package hypervisor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// Values are libvirt's counters of a device or another part of a domain, by libvirt's own names (virConnectGetAllDomainStats), such as 'rd.bytes'. A counter
// that libvirt does not report is missing.
type Values map[string]uint64

// Statistics are libvirt's counters of a running domain. Their units are nanoseconds, KiB, bytes and numbers, as in libvirt's documentation.
type Statistics struct {
	CPU    Values `json:"cpu,omitempty"`
	Memory Values `json:"memory,omitempty"`
	// VCPUs are by their numbers. A vCPU that was not plugged has no entry.
	VCPUs map[string]Values `json:"vcpus,omitempty"`
	// Disks and NICs are by their names in the spec of the VMI.
	Disks map[string]Values `json:"disks,omitempty"`
	NICs  map[string]Values `json:"nics,omitempty"`
}

// Names of values.
const (
	// ValueState is the state of a vCPU: an element of enum virVcpuState.
	ValueState = "state"
	// ValueBalloon is 'current' of a domain that has a balloon.
	ValueBalloon = "balloon"
)

// keptValues are the names of the values that are passed on, by group. Newer versions of libvirt have dozens of values for a single vCPU.
var keptValues = map[string][]string{
	"cpu":     {"time", "user", "system"},
	"balloon": {"current", "swap_in", "swap_out", "major_fault", "minor_fault", "unused", "available", "rss", "usable", "disk_caches"},
	"vcpu":    {ValueState, "time", "wait", "delay"},
	"net":     {"rx.bytes", "rx.pkts", "rx.errs", "rx.drop", "tx.bytes", "tx.pkts", "tx.errs", "tx.drop"},
	"block":   {"rd.reqs", "rd.bytes", "rd.times", "wr.reqs", "wr.bytes", "wr.times", "fl.reqs", "fl.times"},
}

// countedGroups are the groups of statistics that are read. The file systems of a guest are not among them, because libvirt would ask its agent.
const countedGroups = libvirt.DomainStatsCPUTotal | libvirt.DomainStatsBalloon | libvirt.DomainStatsVCPU |
	libvirt.DomainStatsInterface | libvirt.DomainStatsBlock

// Statistics reads libvirt's counters of the owner's domain. While the domain is busy, libvirt answers at once with fewer values.
func (l *Libvirt) Statistics(ctx context.Context, owner Owner) (now Statistics, err error) {
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domain, running, err := runningDomain(rpc, owner)
		if err != nil {
			return err
		}
		if running == nil {
			return errNotActive
		}
		records, err := rpc.ConnectGetAllDomainStats([]libvirt.Domain{domain}, uint32(countedGroups), uint32(libvirt.ConnectGetAllDomainsStatsNowait))
		if err != nil {
			return err
		}
		for _, record := range records { // one, or none when the domain has ended
			now = statisticsOf(record.Params, running)
			if l.uri == libvirt.QEMUSession { // in a pod, whose network this process has too
				maps.Copy(now.NICs, podCounters(running))
			}
		}
		return nil
	})
	return now, err
}

// statisticsOf groups the values of one domain.
func statisticsOf(params []libvirt.TypedParam, running *libvirtxml.Domain) Statistics {
	groups := map[string]Values{"cpu": {}, "balloon": {}}
	lists := map[string]map[string]Values{"vcpu": {}, "net": {}, "block": {}} // by the places in libvirt's lists
	targets := map[string]map[string]string{"net": {}, "block": {}}
	for _, param := range params {
		group, name, _ := strings.Cut(param.Field, ".")
		place := ""
		if lists[group] != nil {
			place, name, _ = strings.Cut(name, ".")
		}
		if text, is := param.Value.I.(string); is && name == "name" && targets[group] != nil {
			targets[group][place] = text
		}
		value, is := numberOf(param.Value.I)
		if !is || !slices.Contains(keptValues[group], name) {
			continue
		}
		values := groups[group]
		if values == nil {
			if values = lists[group][place]; values == nil {
				values = Values{}
				lists[group][place] = values
			}
		}
		values[name] = value
	}
	if size, has := groups["balloon"]["current"]; has && hasBalloon(running) {
		groups["balloon"][ValueBalloon] = size
	}
	disks, nics := namesByTarget(running)
	return Statistics{
		CPU: groups["cpu"], Memory: groups["balloon"], VCPUs: lists["vcpu"],
		Disks: namedBySpec(lists["block"], targets["block"], disks), NICs: namedBySpec(lists["net"], targets["net"], nics),
	}
}

// namedBySpec returns the values of a list by the names in the spec. It leaves out a device that the spec does not name.
func namedBySpec(list map[string]Values, targets, names map[string]string) map[string]Values {
	all := map[string]Values{}
	for place, values := range list {
		if name := names[targets[place]]; name != "" {
			all[name] = values
		}
	}
	return all
}

// namesByTarget returns the names of disks and interfaces in the spec, by their names in libvirt's statistics.
func namesByTarget(running *libvirtxml.Domain) (disks, nics map[string]string) {
	disks, nics = map[string]string{}, map[string]string{}
	if running.Devices == nil {
		return disks, nics
	}
	for i := range running.Devices.Disks {
		if disk := &running.Devices.Disks[i]; disk.Target != nil {
			disks[disk.Target.Dev] = abi.Name("disk", disk.Alias)
		}
	}
	for i := range running.Devices.Interfaces {
		if nic := &running.Devices.Interfaces[i]; nic.Target != nil {
			nics[nic.Target.Dev] = abi.Name("interface", nic.Alias)
		}
	}
	return disks, nics
}

func hasBalloon(running *libvirtxml.Domain) bool {
	return running.Devices != nil && running.Devices.MemBalloon != nil && running.Devices.MemBalloon.Model != "none"
}

// numberOf returns a counter of libvirt. Strings, booleans, fractions and negative numbers are not counters.
func numberOf(value any) (uint64, bool) {
	switch n := value.(type) {
	case uint64:
		return n, true
	case uint32:
		return uint64(n), true
	case int64:
		return uint64(n), n >= 0
	case int32:
		return uint64(n), n >= 0
	}
	return 0, false
}
