// Package bind finds or makes what a guest needs of its machine: kernel, firmware, volumes, images, network interfaces, configuration data and keys.
// It alone produces backend.Bindings for a start. A bare machine is the one kind of machine that is served today.
package bind

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

// BareMachine serves the guests of a machine outside of any pod. Its administrator names what it serves, and where it keeps what belongs to a guest.
type BareMachine struct {
	// Volumes serves disks and images; nil serves none.
	Volumes *Root
	// Claims says what claims are; nil knows none. Nothing is served from it.
	Claims *Root
	// State is the folder for what lives as long as a VMI: overlays, empty disks, ISOs, NVRAM, sockets, logs.
	State string
	// TPMKeys is the folder of the keys of TPM states, which are encrypted then; empty leaves them as they are.
	TPMKeys string
	// TPMStates is libvirt's folder of those states, empty for the usual one. Ours is in it.
	TPMStates string
	// Guard keeps guests on bridges from sending under MAC addresses that are not theirs.
	Guard bool
	// Bridges maps network names to bridges of this machine, for interfaces with the bridge binding.
	Bridges map[string]string

	running running
}

// Folder is the VMI's own folder. It is named by UID, which is short (socket paths are limited to 107 bytes) and never reused.
func (h *BareMachine) Folder(vmi *v1.VirtualMachineInstance) string {
	return filepath.Join(h.State, string(vmi.UID))
}

// sockets is the folder in it for the sockets that QEMU makes itself.
func (h *BareMachine) sockets(vmi *v1.VirtualMachineInstance) string {
	return filepath.Join(h.Folder(vmi), "qemu")
}

// makeDir makes the VMI's own folder. It is the launcher's, since libvirt follows the paths in it as root: QEMU, which a guest may have broken
// out into, may pass through and make nothing in it. In the folder for its sockets it may.
func (h *BareMachine) makeDir(vmi *v1.VirtualMachineInstance, qemu *backend.Account) error {
	own, sockets := h.Folder(vmi), h.sockets(vmi)
	if err := os.MkdirAll(sockets, 0o711); err != nil {
		return err
	}
	if qemu == nil || qemu.UID == os.Geteuid() {
		return errors.Join(os.Chmod(own, 0o700), os.Chmod(sockets, 0o700))
	}
	return errors.Join(os.Chown(own, -1, qemu.GID), os.Chmod(own, 0o710), os.Chown(sockets, qemu.UID, qemu.GID), os.Chmod(sockets, 0o700))
}

// bind makes or finds every host resource that the VMI needs, one kind after the other.
func (h *BareMachine) bind(ctx context.Context, vmi *v1.VirtualMachineInstance, qemu *backend.Account) (backend.Bindings, field.ErrorList) {
	if vmi.UID == "" {
		return backend.Bindings{}, field.ErrorList{field.Required(field.NewPath("metadata", "uid"), "only a VMI of a cluster can be bound to this machine")}
	}
	if err := h.makeDir(vmi, qemu); err != nil {
		return backend.Bindings{}, field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	dir := h.Folder(vmi)
	volumes, wrongVolumes := h.volumes(ctx, vmi)
	nics, wrongNICs := h.nics(vmi.Spec.Domain.Devices.Interfaces)
	boot, wrongBoot := h.kernelBoot(vmi.Spec.Domain.Firmware)
	files, wrongFiles := firmwareFiles(vmi, dir)
	tpm, wrongTPM := h.tpm(vmi)
	return backend.Bindings{
		Volumes: volumes, NICs: nics, Kernel: boot.kernel, Initrd: boot.initrd, FirmwareFiles: files, TPMState: tpm.state, TPMEncrypted: tpm.encrypted,
		NVRAM: filepath.Join(dir, "nvram.fd"), VNC: filepath.Join(h.sockets(vmi), "vnc.sock"),
		Serial: filepath.Join(dir, "serial.sock"), SerialLog: filepath.Join(dir, "serial.log"),
	}, slices.Concat(wrongVolumes, wrongNICs, wrongBoot, wrongFiles, wrongTPM)
}

// Forget removes what lived as long as the VMI.
func (h *BareMachine) Forget(vmi *v1.VirtualMachineInstance) error {
	if vmi.UID == "" {
		return nil
	}
	return errors.Join(h.forgetTPM(vmi), os.RemoveAll(h.Folder(vmi)))
}
