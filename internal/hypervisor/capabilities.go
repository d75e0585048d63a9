package hypervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"libvirt.org/go/libvirtxml"
)

// architectures maps libvirt's names to Kubernetes' names, for the architectures that KubeVirt's API has defaults for.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}

// Capabilities reads the facts of this host from libvirt and from QEMU's firmware descriptors. node becomes its NodeName. The versions are empty if libvirt
// does not report them.
func (l *Libvirt) Capabilities(ctx context.Context, node string, allowKVM KVM) (backend.Capabilities, error) {
	var libvirtVersion, qemuVersion string
	var caps libvirtxml.Caps
	var models map[string]v1alpha1.ReportedCPU
	// On the first call a new libvirt daemon probes every QEMU that is installed. That takes up to a minute on a busy machine.
	err := l.runWithin(ctx, l.changeTimeout, func(rpc *libvirt.Libvirt) error {
		text, err := rpc.ConnectGetCapabilities()
		if err != nil {
			return err
		}
		if err := caps.Unmarshal(text); err != nil {
			return fmt.Errorf("libvirt's capabilities cannot be read: %w", err)
		}
		if v, err := rpc.ConnectGetLibVersion(); err == nil {
			libvirtVersion = unpackVersion(v)
		}
		if v, err := rpc.ConnectGetVersion(); err == nil {
			qemuVersion = unpackVersion(v)
		}
		models, err = hostModels(rpc, caps, allowKVM)
		return err
	})
	if err != nil {
		return backend.Capabilities{}, err
	}
	host := hostFacts(caps, allowKVM)
	host.NodeName, host.LibvirtVersion, host.QEMUVersion, host.CPUs = node, libvirtVersion, qemuVersion, models
	host.Firmware, err = readFirmware(firmwareDirs)
	return host, err
}

// KVM is the administrator's setting of hardware virtualization, because guests may fail to run with KVM although /dev/kvm exists.
type KVM string

// Values of KVM.
const (
	KVMAuto  KVM = "auto"
	KVMNever KVM = "never"
)

// unpackVersion returns a version that libvirt packs as 1,000,000 x major + 1,000 x minor + release.
func unpackVersion(v uint64) string { return fmt.Sprintf("%d.%d.%d", v/1000000, v/1000%1000, v%1000) }

// hostFacts reads libvirt's capabilities. It leaves out architectures that KubeVirt does not have, and guests that are not fully virtualized. The first
// virtualization type is preferred; 'qemu' is the last.
func hostFacts(caps libvirtxml.Caps, allowKVM KVM) backend.Capabilities {
	host := backend.Capabilities{Emulators: map[string]string{}, Machines: map[string]map[string]string{}}
	if caps.Host.CPU != nil {
		host.Architecture = architectures[caps.Host.CPU.Arch]
	}
	for _, guest := range caps.Guests {
		arch := architectures[guest.Arch.Name]
		if arch == "" || guest.OSType != "hvm" {
			continue
		}
		host.Emulators[arch] = guest.Arch.Emulator
		host.Machines[arch] = machineTypes(guest.Arch)
		for _, domain := range guest.Arch.Domains {
			if arch == host.Architecture && domain.Type == "kvm" && allowKVM != KVMNever && !slices.Contains(host.VirtTypes, "kvm") {
				host.VirtTypes = append(host.VirtTypes, "kvm")
			}
		}
	}
	host.VirtTypes = append(host.VirtTypes, "qemu")
	host.QEMU = qemuAccount(caps.Host.SecModel)
	if caps.Host.NUMA != nil && caps.Host.NUMA.Cells != nil {
		for _, cell := range caps.Host.NUMA.Cells.Cells {
			host.NUMA = append(host.NUMA, numaNode(cell))
		}
	}
	return host
}

// qemuAccount returns the user that libvirt's DAC driver runs QEMU as, from its label +UID:+GID.
func qemuAccount(models []libvirtxml.CapsHostSecModel) *backend.Account {
	for _, model := range models {
		for _, label := range model.Labels {
			var found backend.Account
			if n, err := fmt.Sscanf(label.Value, "+%d:+%d", &found.UID, &found.GID); model.Name == "dac" && err == nil && n == 2 {
				return &found
			}
		}
	}
	return nil
}

// machineTypes maps each machine type to the versioned type that it stands for. A versioned type stands for itself.
func machineTypes(arch libvirtxml.CapsGuestArch) map[string]string {
	machines := map[string]string{}
	lists := [][]libvirtxml.CapsGuestMachine{arch.Machines}
	for _, domain := range arch.Domains {
		lists = append(lists, domain.Machines)
	}
	for _, list := range lists {
		for _, machine := range list {
			if machines[machine.Name] == "" || machine.Canonical != "" {
				machines[machine.Name] = machine.Name
				if machine.Canonical != "" {
					machines[machine.Name] = machine.Canonical
				}
			}
		}
	}
	return machines
}

// firmwareDirs are the folders of firmware descriptors. A file in an earlier folder hides files of the same name in later folders (QEMU's
// docs/interop/firmware.json).
var firmwareDirs = []string{"/etc/qemu/firmware", "/usr/share/qemu/firmware"}

// firmwareDescriptor is the part of QEMU's firmware descriptor that Kiln reads.
type firmwareDescriptor struct {
	Interfaces []string `json:"interface-types"`
	Mapping    struct {
		Device     string       `json:"device"`
		Executable firmwareFile `json:"executable"`
		NVRAM      firmwareFile `json:"nvram-template"`
		Filename   string       `json:"filename"`
	} `json:"mapping"`
	Targets []struct {
		Architecture string   `json:"architecture"`
		Machines     []string `json:"machines"`
	} `json:"targets"`
	Features []string `json:"features"`
}

// firmwareFile is a file that a descriptor names, with its format: raw or qcow2.
type firmwareFile struct {
	Filename string `json:"filename"`
	Format   string `json:"format"`
}

// readFirmware reads the descriptors in QEMU's order of preference: by file name, ascending.
func readFirmware(dirs []string) ([]backend.Firmware, error) {
	files := map[string]string{}
	for _, dir := range slices.Backward(dirs) {
		found, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		for _, path := range found {
			files[filepath.Base(path)] = path
		}
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []backend.Firmware
	for _, name := range names {
		raw, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		var d firmwareDescriptor
		if len(raw) == 0 {
			continue // an empty file masks one of the same name
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("firmware descriptor '%s': %w", files[name], err)
		}
		all = append(all, d.uefiBuilds()...)
	}
	return all, nil
}

// uefiBuilds returns the firmware of a UEFI descriptor for each of its architectures. It leaves out BIOS, which QEMU finds by itself, and firmware whose file
// is missing.
func (d firmwareDescriptor) uefiBuilds() []backend.Firmware {
	if !slices.Contains(d.Interfaces, "uefi") {
		return nil
	}
	switch d.Mapping.Device {
	case "flash":
	case "memory": // without variables, for encrypted guests
		d.Mapping.Executable = firmwareFile{Filename: d.Mapping.Filename, Format: "raw"}
	default:
		return nil
	}
	if vars := d.Mapping.NVRAM; vars.Filename != "" && !strings.EqualFold(vars.Format, d.Mapping.Executable.Format) {
		return nil // HostFirmware has one format for both files, as all builds have
	}
	var builds []backend.Firmware
	for _, target := range d.Targets {
		arch := architectures[target.Architecture]
		if arch == "" || !isFile(d.Mapping.Executable.Filename) {
			continue
		}
		builds = append(builds, backend.Firmware{
			Architecture: arch, Machines: target.Machines, Features: d.Features,
			Code: d.Mapping.Executable.Filename, VarsTemplate: d.Mapping.NVRAM.Filename,
			Format: strings.ToLower(d.Mapping.Executable.Format),
		})
	}
	return builds
}

// isFile reports whether a regular file exists. A descriptor may be installed without its firmware.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
