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
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Pod finds resources for the VMI of a pod in what Kubernetes mounted into the pod, at the paths of package pod. Everything in volumes and images is hostile,
// because a tenant wrote it. The pod, its libvirt and its QEMU run as one user, who owns all files.
type Pod struct {
	// Root is the folder of the paths of package pod. It is empty in a pod.
	Root string
	// Network is how the guest reaches the network of the pod.
	Network pod.Network
	// CPUs are the CPUs that the pod may use. For a VMI with dedicatedCpuPlacement kubelet has reserved them.
	CPUs []int
	// OpenFiles is the number of files that a process of the pod may have open, 0 if it is not known.
	OpenFiles uint64
	// Getenv reads the environment of the pod, in which device plugins name the devices of GPUs and host devices. If it is nil, there are none.
	Getenv func(name string) string

	running bindingsInProgress
}

// guestFolder is the folder below pod.Private for files that live as long as the pod: overlays, empty disks, ISOs, sockets. Its name is short, because the
// path of a socket has at most 107 bytes.
const guestFolder = "guest"

func (p *Pod) path(path string) string { return filepath.Join(p.Root, path) }

func (p *Pod) folder() string { return filepath.Join(p.path(pod.Private), guestFolder) }

// Console returns the path of the guest's serial log.
func (p *Pod) Console() string { return filepath.Join(p.folder(), "console") }

// Bind finds or creates all resources of the VMI, within a deadline. The errors name every volume and interface that the pod cannot serve.
func (p *Pod) Bind(ctx context.Context, vmi *v1.VirtualMachineInstance) (Bound, field.ErrorList) {
	own := vmi.DeepCopy()
	return p.running.runWithDeadline(ctx, own.UID, func(ctx context.Context) (Bound, field.ErrorList) { return p.bindResources(ctx, own) })
}

func (p *Pod) bindResources(ctx context.Context, vmi *v1.VirtualMachineInstance) (Bound, field.ErrorList) {
	folder := p.folder()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Bound{}, field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	nvram, tpm, wrongState := p.statePaths(&vmi.Spec.Domain)
	volumes, values, wrongVolumes := bindVolumes(ctx, vmi.Spec.Volumes, func(volume v1.Volume) (volumeSource, error) { return p.volumeSource(ctx, vmi, volume) })
	nics, wrongNICs := bindNICs(vmi.Spec.Domain.Devices.Interfaces, func(nic v1.Interface) (backend.NIC, error) { return p.hostInterface(vmi, nic) })
	boot, wrongBoot := kernelFiles(vmi.Spec.Domain.Firmware, func(image string) (*Root, error) {
		return openMount(p.path(pod.Kernel), fmt.Sprintf("image '%s'", image))
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
		Channels:        map[string]string{abi.GuestAgent: filepath.Join(folder, "agent.sock")}, // libvirt's own path may be too long
		NoMemoryBinding: true,
	}}
	if logs := vmi.Spec.Domain.Devices.LogSerialConsole; logs == nil || *logs {
		bound.SerialLog = p.Console()
	}
	var wrongCPUs field.ErrorList
	bound.CPUs, wrongCPUs = p.dedicatedCPUs(vmi)
	return bound, slices.Concat(wrongVolumes, wrongNICs, wrongBoot, wrongFirmware, wrongTables, wrongState, wrongKey, wrongDevices, wrongCPUs,
		checkZone(zoneinfo, vmi.Spec.Domain.Clock))
}

// dedicatedCPUs returns the CPUs of a VMI with dedicatedCpuPlacement, none for another. Kubelet's static CPU manager gives the pod exactly the CPUs that it
// requests. If the kubelet has another CPU manager, each pod may use all CPUs of the node, and guests would be pinned to the same CPUs.
func (p *Pod) dedicatedCPUs(vmi *v1.VirtualMachineInstance) ([]int, field.ErrorList) {
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

// statePaths returns the paths of EFI variables and of TPM state. If they are persistent, they are in pod.State, which outlives the pod. It is an error if
// pod.State is not mounted.
func (p *Pod) statePaths(domain *v1.DomainSpec) (nvram, tpm string, errs field.ErrorList) {
	statePath := func(name string, persistent *bool, at ...string) string {
		if !ptr.Deref(persistent, false) {
			return filepath.Join(p.folder(), name)
		}
		if there, err := fileExists(p.path(pod.State)); err != nil || !there {
			errs = append(errs, field.InternalError(field.NewPath("spec", "domain").Child(at[0], at[1:]...),
				fmt.Errorf("'%s', which outlives the pod, is not mounted", pod.State)))
		}
		return filepath.Join(p.path(pod.State), name)
	}
	var variables, keys *bool
	if f := domain.Firmware; f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil {
		variables = f.Bootloader.EFI.Persistent
	}
	if domain.Devices.TPM != nil {
		keys = domain.Devices.TPM.Persistent
	}
	nvram = statePath("nvram.fd", variables, "firmware", "bootloader", "efi", "persistent")
	tpm = statePath("tpm2", keys, "devices", "tpm", "persistent")
	return nvram, tpm, errs
}

// variableFormat returns the format of existing EFI variables by the names of their files; empty if there are none. The content is not read, because a guest
// may have written it.
func variableFormat(nvram string) string {
	for _, format := range []string{"raw", "qcow2"} {
		if there, err := fileExists(backend.NVRAMIn(format, nvram)); there && err == nil {
			return format
		}
	}
	return ""
}

// acpiTables finds the files of spec.domain.firmware.acpi. Each file is in a volume of kind Secret, as stage 1 requires.
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
		file, err := p.volumeFile(table.volume, table.file)
		if err != nil {
			errs = append(errs, field.Invalid(path.Child(table.name+"NameRef"), table.volume, err.Error()))
			continue
		}
		tables[table.name] = file
	}
	return tables, errs
}

// volumeFile returns the path of a regular file in a volume.
func (p *Pod) volumeFile(volume, file string) (string, error) {
	tree, err := p.openVolume(volume)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	return tree.regularFile(file)
}

// openVolume opens the folder of a volume.
func (p *Pod) openVolume(volume string) (*Root, error) {
	return openMount(p.path(pod.VolumePath(volume)), fmt.Sprintf("volume '%s'", volume))
}

// blockDevice returns the path of a volume's block device; false if the volume has none.
func (p *Pod) blockDevice(volume string) (string, bool, error) {
	path := p.path(pod.DevicePath(volume))
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return "", false, nil
	}
	if err == nil && info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		err = fmt.Errorf("'%s' is not a block device", path)
	}
	return path, err == nil, err
}
