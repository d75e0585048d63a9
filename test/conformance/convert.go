package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pipeline"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// replayConvert compares what the guest sees: devices with bus and model, topology, memory, firmware, timers.
func replayConvert(c record, cluster config.Cluster) outcome {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(c.VMI, vmi); err != nil {
		return differs("unreadable: %v", err)
	}
	arch := vmi.Spec.Architecture
	bindings := backend.AssumedBindings(vmi)
	if len(c.Context.CPUSet) > 0 && len(bindings.CPUs) > 0 {
		bindings.CPUs = c.Context.CPUSet
	}
	rendered, errs := pipeline.Render(pipeline.Machine{VMI: vmi, Defaults: cluster.Frontend, Host: backend.Assumed(arch), Bindings: bindings})
	switch {
	case len(errs) > 0 && c.Expect.Error != "":
		return outcome{agrees: true}
	case len(errs) > 0:
		return differs("refused: %s %s", errs[0].Field, errs[0].Detail)
	case c.Expect.Error != "":
		return differs("rendered: the reference says %s", c.Expect.Error)
	}
	var want libvirtxml.Domain
	if err := want.Unmarshal(c.Expect.XML); err != nil {
		return outcome{listed: "KubeVirt's XML cannot be read by libvirt's own types"}
	}
	left, right := seen(&want), seen(rendered.Frontend)
	for _, key := range slices.Sorted(maps.Keys(left)) {
		if left[key] != right[key] {
			return differs("%s: want %s, got %s", key, left[key], right[key])
		}
	}
	return outcome{agrees: true}
}

// seen are facts that a guest sees, in words that do not depend on how they are spelled.
func seen(d *libvirtxml.Domain) map[string]string {
	facts := map[string]string{}
	if d.CPU != nil && d.CPU.Topology != nil {
		facts["topology"] = fmt.Sprint(d.CPU.Topology.Sockets, d.CPU.Topology.Cores, d.CPU.Topology.Threads)
		facts["cpu"] = d.CPU.Mode
	}
	if d.Memory != nil {
		facts["memory KiB"] = fmt.Sprint(kib(d.Memory.Value, d.Memory.Unit))
	}
	var disks, nics, timers []string
	for _, disk := range d.Devices.Disks {
		disks = append(disks, strings.Join([]string{alias(disk.Alias), disk.Device, disk.Target.Bus, disk.Model}, "/"))
	}
	for _, nic := range d.Devices.Interfaces {
		nics = append(nics, alias(nic.Alias)+"/"+nic.Model.Type)
	}
	if d.Clock != nil {
		for _, timer := range d.Clock.Timer {
			timers = append(timers, timer.Name+"/"+timer.Present+"/"+timer.TickPolicy)
		}
	}
	for name, list := range map[string][]string{"disks": disks, "interfaces": nics, "timers": timers} {
		slices.Sort(list)
		facts[name] = strings.Join(list, " ")
	}
	efi := d.OS != nil && (d.OS.Firmware == "efi" || d.OS.Loader != nil && d.OS.Loader.Type != "")
	facts["firmware"] = fmt.Sprint("efi ", efi)
	return facts
}

func alias(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	return strings.TrimPrefix(a.Name, "ua-")
}

func kib(value uint, unit string) uint {
	switch unit {
	case "b", "bytes":
		return (value + 1023) / 1024
	case "MiB":
		return value * 1024
	case "GiB":
		return value * 1024 * 1024
	}
	return value
}
