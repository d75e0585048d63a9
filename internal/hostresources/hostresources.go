// Package hostresources finds or creates what a guest needs from its host: volumes, images, network interfaces, kernel, firmware, devices, configuration data
// and keys. Only this package produces backend.Bindings for a start. BareMachine serves the VMIs of a machine, Pod serves the VMI of its pod.
package hostresources

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// BareMachine finds resources for VMIs that run on a machine outside of pods. Its fields come from the administrator's flags.
type BareMachine struct {
	// Volumes serves disks and images; nil serves none.
	Volumes *Root
	// Claims is the folder of claim descriptions; nil if the launcher has no such folder. Guests never get its files.
	Claims *Root
	// State is the folder for files that live as long as a VMI: overlays, empty disks, ISOs, NVRAM, sockets, logs.
	State string
	// TPMKeys is the folder of the keys of encrypted TPM states. If it is empty, TPM states are not encrypted.
	TPMKeys string
	// TPMStates is libvirt's folder of TPM states, empty for DefaultTPMStates. Kiln's folder is below it.
	TPMStates string
	// Guard keeps guests on bridges from sending under MAC addresses other than their own.
	Guard bool
	// Bridges maps network names to bridges of this machine, for interfaces with the bridge binding.
	Bridges map[string]string

	running bindingsInProgress
}

// Folder returns the VMI's own folder. Its name is the UID, which is short (socket paths have at most 107 bytes) and never reused.
func (h *BareMachine) Folder(vmi *v1.VirtualMachineInstance) string {
	return filepath.Join(h.State, string(vmi.UID))
}

// socketFolder returns the folder below Folder for the sockets that QEMU creates.
func (h *BareMachine) socketFolder(vmi *v1.VirtualMachineInstance) string {
	return filepath.Join(h.Folder(vmi), "qemu")
}

// makeFolders creates the VMI's own folder and the folder of its sockets in it. The launcher owns the first, because libvirt follows the paths in it as root:
// a guest may have taken over QEMU, so QEMU may create files only in the folder of the sockets.
func makeFolders(own, sockets string, qemu *backend.Account) error {
	if err := os.MkdirAll(sockets, 0o711); err != nil {
		return err
	}
	if qemu == nil || qemu.UID == os.Geteuid() {
		return errors.Join(os.Chmod(own, 0o700), os.Chmod(sockets, 0o700))
	}
	return errors.Join(os.Chown(own, -1, qemu.GID), os.Chmod(own, 0o710), os.Chown(sockets, qemu.UID, qemu.GID), os.Chmod(sockets, 0o700))
}

// Bound is what Bind found or created for one start of a VMI.
type Bound struct {
	backend.Bindings
	folder string
	values secretValues
}

// secretValues are functions that return the values of secrets, by reference. Only the call of a function reads or creates the value.
type secretValues map[string]func() ([]byte, error)

// Secrets returns the values of secrets by reference. Secrets that Bind has not found are missing in the result.
func (b Bound) Secrets(wanted []backend.Secret) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, secret := range wanted {
		read, found := b.values[secret.Ref]
		if !found {
			continue
		}
		value, err := read()
		if err != nil {
			return nil, err
		}
		all[secret.Ref] = value
	}
	return all, nil
}

// bindResources finds or creates all resources of a VMI, one kind after the other.
func (h *BareMachine) bindResources(ctx context.Context, vmi *v1.VirtualMachineInstance, qemu *backend.Account) (Bound, field.ErrorList) {
	if vmi.UID == "" {
		return Bound{}, field.ErrorList{field.Required(field.NewPath("metadata", "uid"), "a VMI without UID cannot be bound to this machine")}
	}
	folder, sockets := h.Folder(vmi), h.socketFolder(vmi)
	if err := makeFolders(folder, sockets, qemu); err != nil {
		return Bound{}, field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	volumes, values, wrongVolumes := bindVolumes(ctx, vmi.Spec.Volumes, func(volume v1.Volume) (volumeSource, error) { return h.volumeSource(ctx, vmi, volume) })
	nics, wrongNICs := bindNICs(vmi.Spec.Domain.Devices.Interfaces, h.hostInterface)
	boot, wrongBoot := kernelFiles(vmi.Spec.Domain.Firmware, h.Volumes.openImage)
	firmware, wrongFirmware := firmwareFiles(ctx, vmi, folder)
	tpm, wrongTPM := h.findTPM(vmi)
	if tpm.key != nil {
		values[backend.TPM] = tpm.key
	}
	nvram := filepath.Join(folder, "nvram.fd")
	bound := Bound{folder: folder, values: values, Bindings: backend.Bindings{
		Volumes: volumes, NICs: nics, Kernel: boot.kernel, Initrd: boot.initrd, FirmwareFiles: firmware, TPMState: tpm.state, TPMEncrypted: tpm.encrypted,
		NVRAM: nvram, NVRAMFormat: variableFormat(nvram), VNC: filepath.Join(sockets, "vnc.sock"),
		Serial: filepath.Join(folder, "serial.sock"),
	}}
	if logs := vmi.Spec.Domain.Devices.LogSerialConsole; logs == nil || *logs {
		bound.SerialLog = filepath.Join(folder, "serial.log")
	}
	return bound, slices.Concat(wrongVolumes, wrongNICs, wrongBoot, wrongFirmware, wrongTPM, checkZone(zoneinfo, vmi.Spec.Domain.Clock))
}

// Forget removes the files that live as long as the VMI.
func (h *BareMachine) Forget(vmi *v1.VirtualMachineInstance) error {
	if vmi.UID == "" {
		return nil
	}
	return errors.Join(h.forgetTPM(vmi), os.RemoveAll(h.Folder(vmi)))
}
