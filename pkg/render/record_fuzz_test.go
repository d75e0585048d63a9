package render

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// recording is a guest with a device of each kind that records speak of. MODEL and BUSES differ between architectures.
const recording = `
metadata: {name: web, namespace: shop, uid: 7f8f8c5e-0000-4000-8000-000000000001}
spec:
  architecture: ARCHITECTURE
  domain:
    cpu: {cores: 4, model: MODEL, dedicatedCpuPlacement: true, NUMA}
    memory: {guest: 1Gi, maxGuest: 1Gi, hugepages: {pageSize: 2Mi}}
    devices:
      rng: {}
      autoattachVSOCK: true
      downwardMetrics: {}
      CLIENT
      disks: [{name: a, disk: {bus: virtio}, blockSize: {matchVolume: {}}}, {name: b, disk: {bus: scsi}},
        {name: c, disk: {bus: SECOND}}, {name: d, disk: {bus: THIRD}}]
      interfaces: [{name: default, masquerade: {}, model: virtio}]
  networks: [{name: default, pod: {}}]
  volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}},
    {name: c, emptyDisk: {capacity: 1Gi}}, {name: d, emptyDisk: {capacity: 1Gi}}]
`

// recordingMachines is that guest on each architecture.
func recordingMachines(t testing.TB) (machines []Machine) {
	for architecture, words := range map[string][]string{
		"amd64": {"MODEL", "host-model", "NUMA", "numa: {guestMappingPassthrough: {}}", "SECOND", "sata", "THIRD", "usb", "CLIENT", "clientPassthrough: {}"},
		"arm64": {"MODEL", "host-passthrough", "NUMA", "numa: {guestMappingPassthrough: {}}", "SECOND", "scsi", "THIRD", "scsi", "CLIENT", "clientPassthrough: {}"},
		"s390x": {"MODEL", "host-model", ", NUMA", "", "SECOND", "scsi", "THIRD", "virtio", "CLIENT\n", "\n"},
	} {
		sparse := decode[v1.VirtualMachineInstance](t, strings.NewReplacer(append(words, "ARCHITECTURE", architecture)...).Replace(recording))
		explicit, verdict := admit.VMI(&sparse, admit.Input{Cluster: config.Default()})
		if !verdict.Allowed() {
			t.Fatal(verdict.Errors)
		}
		m := Machine{VMI: explicit, Defaults: config.Default().Frontend, Host: backend.Assumed(architecture), Bindings: backend.AssumedBindings(explicit)}
		if model := map[string]string{"amd64": "EPYC-Rome", "s390x": "gen15a-base"}[architecture]; model != "" {
			m.Host.CPUs = map[string]v1alpha1.ReportedCPU{architecture: {Model: model, Features: []string{"aes", "avx2"}, DisabledFeatures: []string{"svm"}}}
		}
		machines = append(machines, m)
	}
	return machines
}

// hostile are records, one of each kind of attack: numbers that are multiplied, lists that are spelled out, words and texts that are
// passed on.
var hostile = []string{
	`{"devices":{"disk.b":{"drive":"4000000000:0:0:0"}}}`,
	`{"devices":{"disk.c":{"drive":"4000000:0:0:5"}}}`,
	`{"devices":{"disk.d":{"usb":"4294967295:1"}}}`,
	`{"devices":{"channel.guest-agent":{"serial":"4294967295:0:30"}}}`,
	`{"devices":{"disk.a":{"ccw":"fe.0.ffffffff"}}}`,
	`{"devices":{"disk.a":{"target":"vdzzzzzzzzzzzzzzzz"}}}`,
	`{"devices":{"disk.a":{"pci":"0000:ff:1f.7"}}}`,
	`{"devices":{"controller.pci.4294967295":{"pci":"0000:00:02.0","expander":"255:65535"}}}`,
	`{"devices":{"controller.usb.0":{"index":4294967295}}}`,
	`{"numa":[{"cpus":"0-4000000000","memoryKiB":1048576}]}`,
	`{"numa":[{"cpus":"0-3","memoryKiB":18446744073709551615},{"cpus":"0-3","memoryKiB":1048577}]}`,
	`{"freePorts":1000000000}`, `{"freePorts":-1}`,
	`{"machine":"microvm"}`, `{"machine":"pc-q35-9.2,accel=tcg"}`, `{"video":"qxl"}`, `{"video":"vga\" primary=\"no"}`,
	`{"vsock":"2"}`, `{"vsock":"4294967295"}`, `{"tsc":18446744073709551615}`,
	`{"smbios":{"oem":"x"}}`, `{"serial":"\u0000"}`, `{"uuid":"../../etc"}`,
	`{"cpu":` + cpuWith(`"features":["avx2","aes"]`) + `}`, `{"cpu":` + cpuWith(`"features":["aes","aes"]`) + `}`, `{"cpu":{}}`,
	`{"cpu":` + cpuWith(`"features":["aes"],"disabledFeatures":["aes"]`) + `}`, `{"cpu":` + cpuWith(`"features":["aes\"/><feature"]`) + `}`,
	`{"cpu":` + cpuWith(`"vendor":"<AMD>"`) + `}`, `{"cpu":` + cpuWith(`"model":"host-model"`) + `}`,
	`{"cpu":` + cpuWith(`"physicalBits":18446744073709551615`) + `}`,
	`{"cpu":` + cpuWith(`"topology":{"sockets":4294967295,"cores":4294967295,"threads":2}`) + `}`,
	`{"firmware":"/etc/passwd"}`, `{"firmware":"..\u0000"}`,
	`{"bios":{"date":"today"}}`, `{"bios":{"uefi":"on"}}`,
	`{"bios":{"release":"1.2,x=y"},"omittedDefaults":["smbios"]}`,
	`{"omittedDefaults":["disk.a"]}`, `{"omittedDefaults":["interface.default/rom","channel.guest-agent"]}`, `{"omittedDefaults":["features/smm"]}`,
	`{"macs":{"default":"01:00:5e:00:00:01"}}`, `{"blockSizes":{"a":{"logical":3,"physical":0}}}`,
}

// cpuWith returns the CPU of a record, with fields that replace the fields of a legal CPU.
func cpuWith(fields string) string {
	return `{"requested":"host-model","model":"EPYC-Rome","topology":{"sockets":1,"cores":4,"threads":1},` + fields + `}`
}

// legal are records that boots have written, whole or in part.
var legal = []string{
	``, `{}`, `{"smbios":{"product":"</sysinfo>"}}`, `{"machine":"pc-q35-7.2","video":"vga","freePorts":8,"vsock":"3","tsc":2400000000}`,
	`{"devices":{"disk.a":{"pci":"0000:03:00.0","target":"vda"},"disk.b":{"drive":"253:0:0:255"},` +
		`"disk.c":{"drive":"253:0:0:5"},"disk.d":{"usb":"253:15"},"channel.guest-agent":{"serial":"253:0:30"}}}`,
	`{"devices":{"controller.pci.254":{"pci":"0000:00:1d.7"},"controller.pci.9":{"pci":"0000:00:05.0","expander":"240:1"},` +
		`"controller.pci.10":{"pci":"0000:09:00.0"}}}`,
	`{"schemaVersion":2,"firmware":"none","cpu":` + cpuWith(`"features":["aes","avx2"],"disabledFeatures":["xsaves"],"verified":true,"physicalBits":46`) + `}`,
	`{"schemaVersion":4,"bios":{"vendor":"V","version":"<v>,1","date":"12/31/1999","release":"255.0"}}`,
	`{"cpu":` + cpuWith(`"features":["pcommit"],"requested":"host-passthrough","firstSeen":true`) + `,"firmware":"OVMF_CODE_4M.fd"}`,
	`{"schemaVersion":3,"omittedDefaults":["channel.guest-agent","controller.pci.1/hotplug","controller.scsi.0","controller.usb.0","controller.usb.0/onDemand",` +
		`"controller.usb.0/ports","controller.virtio-serial.0","features/vmport","interface.default/rom","memballoon.balloon/freePageReporting",` +
		`"pm/suspend-to-disk","pm/suspend-to-mem","redirdev.usbredir-0","smbios"]}`,
	`{"numa":[{"cpus":"0-1","memoryKiB":524288,"distances":[10,20]},{"cpus":"2-3","memoryKiB":524288,"distances":[20,10]}],` +
		`"blockSizes":{"a":{"logical":512,"physical":4096}}}`,
}

// Bounds of what a record may make of a guest of a dozen devices: no more controllers than there are places for, of each kind; no more errors
// than devices and controllers; and so little memory that a node has it for all of its guests.
const (
	mostRendered  = 3*254 + 256 + 64
	mostAllocated = 64 << 20 // bytes, of all that is allocated on the way
)

// FuzzRecord goes from the bytes of a record to a domain. A record that is read never panics, whatever guest it is for, and what it makes of it
// is bounded.
func FuzzRecord(f *testing.F) {
	for _, text := range append(hostile, legal...) {
		f.Add([]byte(text))
	}
	machines := recordingMachines(f)
	for _, m := range machines {
		rendered, errs := Domain(m)
		if len(errs) > 0 {
			f.Fatalf("%s: %v", m.VMI.Spec.Architecture, errs)
		}
		text, err := json.Marshal(rendered.Record)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		record, err := read(string(text))
		if err != nil {
			if len(err.Error()) > 8<<10 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, m := range machines {
			m.Frozen = record
			if err := bounded(m); err != nil {
				t.Errorf("%s: %v", m.VMI.Spec.Architecture, err)
			}
		}
	})
}

// bounded renders a machine and judges what that made.
func bounded(m Machine) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rendered, errs := Domain(m)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > mostAllocated {
		return fmt.Errorf("%d bytes were allocated", allocated)
	}
	if len(errs) > mostRendered {
		return fmt.Errorf("%d errors", len(errs))
	}
	if len(errs) > 0 {
		return nil
	}
	if devices := len(abi.Devices(rendered.Frontend)); devices > mostRendered {
		return fmt.Errorf("%d devices", devices)
	}
	// The record of the boot is one that the next boot can read.
	return record.Check(&rendered.Record)
}

// read is a record as the API server hands it out.
func read(text string) (*record.Record, error) {
	if text == "" {
		return nil, record.Check(nil)
	}
	given := &record.Record{}
	if err := json.Unmarshal([]byte(text), given); err != nil {
		return nil, fmt.Errorf("%.100s", err.Error())
	}
	return given, record.Check(given)
}

// TestHostileRecords: each is refused, with the entry that is wrong; the neighbours that are right are not.
func TestHostileRecords(t *testing.T) {
	for _, text := range hostile {
		record, err := read(text)
		if err != nil {
			continue
		}
		// What is wrong only for a guest of one architecture is refused when that is rendered, or has no effect.
		for _, m := range recordingMachines(t) {
			m.Frozen = record
			rendered, errs := Domain(m)
			if len(errs) == 0 && (rendered.Record.Machine == record.Machine && record.Machine != "" || rendered.Record.Video == record.Video && record.Video != "") {
				t.Errorf("%s: '%s' was rendered", m.VMI.Spec.Architecture, text)
			}
		}
		if !strings.Contains(text, "microvm") && !strings.Contains(text, "qxl") {
			t.Errorf("'%s' was read", text)
		}
	}
	for _, text := range legal {
		if _, err := read(text); err != nil {
			t.Errorf("'%s': %v", text, err)
		}
	}
}
