package hostresources

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Pod binds the VMI of a pod to what Kubernetes mounted into the pod, at the paths of package pod. Everything in volumes and images is hostile: a tenant
// wrote it. Files are those of the user that the pod, its libvirt and its QEMU run as.
type Pod struct {
	// Root is the folder that the paths of package pod are below. It is empty in a pod.
	Root string
	// Network is how the guest reaches the network of the pod.
	Network pod.Network
	// CPUs are those that the pod may use. A VMI with dedicatedCpuPlacement gets them; kubelet has given them to no other.
	CPUs []int
	// OpenFiles is how many files a process of the pod may have open, 0 if that is not known.
	OpenFiles uint64
	// Getenv reads the environment of the pod, in which device plugins name the devices of GPUs and host devices. Without it there are none.
	Getenv func(name string) string

	running running
}

// guestFolder is the folder, below pod.Private, of what lives as long as the pod: overlays, empty disks, ISOs, sockets. Its name is short: the path of a
// socket has at most 107 bytes.
const guestFolder = "guest"

func (p *Pod) at(path string) string { return filepath.Join(p.Root, path) }

func (p *Pod) folder() string { return filepath.Join(p.at(pod.Private), guestFolder) }

// Console is the path of the guest's serial log.
func (p *Pod) Console() string { return filepath.Join(p.folder(), "console") }

// Bind finds or creates everything that the VMI needs of its pod, within a deadline. The errors name every volume and interface that cannot be served.
func (p *Pod) Bind(ctx context.Context, vmi *v1.VirtualMachineInstance) (Bound, field.ErrorList) {
	own := vmi.DeepCopy()
	return p.running.within(ctx, own.UID, func(ctx context.Context) (Bound, field.ErrorList) { return p.bind(ctx, own) })
}

func (p *Pod) bind(ctx context.Context, vmi *v1.VirtualMachineInstance) (Bound, field.ErrorList) {
	folder := p.folder()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Bound{}, field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	nvram, tpm, wrongState := p.state(&vmi.Spec.Domain)
	volumes, values, wrongVolumes := bindVolumes(ctx, vmi.Spec.Volumes, func(volume v1.Volume) (source, error) { return p.source(ctx, vmi, volume) })
	nics, wrongNICs := bindNICs(vmi.Spec.Domain.Devices.Interfaces, func(nic v1.Interface) (backend.NIC, error) { return p.nic(vmi, nic) })
	boot, wrongBoot := bootFiles(vmi.Spec.Domain.Firmware, func(image string) (*Root, error) {
		return openMount(p.at(pod.Kernel), fmt.Sprintf("image '%s'", image))
	})
	firmware, wrongFirmware := firmwareFiles(ctx, vmi, folder)
	key, wrongKey := p.tpmKey(vmi.Spec.Domain.Devices.TPM)
	if key != nil {
		values[backend.TPM] = func() ([]byte, error) { return key, nil }
	}
	tables, wrongTables := p.acpiTables(vmi.Spec.Domain.Firmware)
	devices, wrongDevices := p.hostDevices(vmi)
	bound := Bound{folder: folder, values: values, Bindings: backend.Bindings{
		Volumes: volumes, NICs: nics, HostDevs: devices, Kernel: boot.kernel, Initrd: boot.initrd, FirmwareFiles: firmware, ACPITables: tables,
		NVRAM: nvram, NVRAMFormat: variableFormat(nvram), TPMState: tpm, TPMEncrypted: key != nil,
		VNC: filepath.Join(folder, "vnc.sock"), Serial: filepath.Join(folder, "serial.sock"),
		Channels: map[string]string{abi.GuestAgent: filepath.Join(folder, "agent.sock")}, // libvirt's own path may be too long
	}}
	if logs := vmi.Spec.Domain.Devices.LogSerialConsole; logs == nil || *logs {
		bound.SerialLog = p.Console()
	}
	var wrongCPUs field.ErrorList
	bound.CPUs, wrongCPUs = p.dedicated(vmi)
	return bound, slices.Concat(wrongVolumes, wrongNICs, wrongBoot, wrongFirmware, wrongTables, wrongState, wrongKey, wrongDevices, wrongCPUs,
		checkZone(zones, vmi.Spec.Domain.Clock))
}

// dedicated returns the CPUs of a VMI with dedicatedCpuPlacement, none for another. Kubelet's static CPU manager gives the pod exactly those that it requests.
// Without it the pod may use every CPU of the node, like its neighbours: guests would be pinned to the same CPUs.
func (p *Pod) dedicated(vmi *v1.VirtualMachineInstance) ([]int, field.ErrorList) {
	requested := pod.DedicatedCPUs(vmi)
	switch {
	case requested == 0:
		return nil, nil
	case int64(len(p.CPUs)) != requested:
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement"), true, fmt.Sprintf(
			"the pod requests %d CPUs for itself, and may use %d: the kubelet of this node needs the static CPU manager (cpuManagerPolicy: static); "+
				"select nodes that have it", requested, len(p.CPUs)))}
	}
	return p.CPUs, nil
}

// state returns the paths of EFI variables and of TPM state. Persistent ones are in pod.State, which outlives the pod; an error says that the pod lacks it.
func (p *Pod) state(domain *v1.DomainSpec) (nvram, tpm string, errs field.ErrorList) {
	place := func(name string, persistent *bool, at ...string) string {
		if !set(persistent) {
			return filepath.Join(p.folder(), name)
		}
		if there, err := exists(p.at(pod.State)); err != nil || !there {
			errs = append(errs, field.InternalError(field.NewPath("spec", "domain").Child(at[0], at[1:]...),
				fmt.Errorf("'%s', which outlives the pod, is not mounted", pod.State)))
		}
		return filepath.Join(p.at(pod.State), name)
	}
	var variables, keys *bool
	if f := domain.Firmware; f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil {
		variables = f.Bootloader.EFI.Persistent
	}
	if domain.Devices.TPM != nil {
		keys = domain.Devices.TPM.Persistent
	}
	nvram = place("nvram.fd", variables, "firmware", "bootloader", "efi", "persistent")
	tpm = place("tpm2", keys, "devices", "tpm", "persistent")
	return nvram, tpm, errs
}

// variableFormat returns the format of the EFI variables that there are, by the names of their files; empty if there are none. The content says nothing: a
// guest may have written it.
func variableFormat(nvram string) string {
	for _, format := range []string{"raw", "qcow2"} {
		if there, err := exists(backend.NVRAMIn(format, nvram)); there && err == nil {
			return format
		}
	}
	return ""
}

// acpiTables finds the files of spec.domain.firmware.acpi. Each is in a volume of kind Secret, which stage 1 requires.
func (p *Pod) acpiTables(firmware *v1.Firmware) (tables map[string]string, errs field.ErrorList) {
	if firmware == nil || firmware.ACPI == nil {
		return nil, nil
	}
	path := field.NewPath("spec", "domain", "firmware", "acpi")
	tables = map[string]string{}
	for _, table := range []struct{ name, volume, file string }{
		{"slic", firmware.ACPI.SlicNameRef, "slic.bin"}, {"msdm", firmware.ACPI.MsdmNameRef, "msdm.bin"}} {
		if table.volume == "" {
			continue
		}
		file, err := p.mountedFile(table.volume, table.file)
		if err != nil {
			errs = append(errs, field.Invalid(path.Child(table.name+"NameRef"), table.volume, err.Error()))
			continue
		}
		tables[table.name] = file
	}
	return tables, errs
}

// mountedFile returns the path of a regular file in a volume.
func (p *Pod) mountedFile(volume, file string) (string, error) {
	tree, err := p.mount(volume)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	return tree.content(file)
}

// mount opens the folder of a volume.
func (p *Pod) mount(volume string) (*Root, error) {
	return openMount(p.at(pod.VolumePath(volume)), fmt.Sprintf("volume '%s'", volume))
}

// device returns the path of a volume's block device; false if the volume has none.
func (p *Pod) device(volume string) (string, bool, error) {
	path := p.at(pod.DevicePath(volume))
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return "", false, nil
	}
	if err == nil && info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		err = fmt.Errorf("'%s' is not a block device", path)
	}
	return path, err == nil, err
}
