// Package bind finds or makes what a guest needs of its machine: kernel, firmware, volumes, images, network interfaces, configuration data and keys.
// It alone produces backend.Bindings for a start. A bare machine is the one kind of machine that is served today.
package bind

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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

// bind makes or finds every host resource that the VMI needs. Errors name the volume or interface that this machine
// cannot serve, all at once.
func (h *BareMachine) bind(vmi *v1.VirtualMachineInstance, qemu *backend.Account) (backend.Bindings, field.ErrorList) {
	dir, spec := h.Folder(vmi), field.NewPath("spec")
	bindings := backend.Bindings{Volumes: map[string]backend.Volume{}, NICs: map[string]backend.NIC{}}
	if vmi.UID == "" {
		return bindings, field.ErrorList{field.Required(field.NewPath("metadata", "uid"), "only a VMI of a cluster can be bound to this machine")}
	}
	if err := h.makeDir(vmi, qemu); err != nil {
		return bindings, field.ErrorList{field.InternalError(spec, err)}
	}
	var errs field.ErrorList
	for i, volume := range vmi.Spec.Volumes {
		bound, err := h.bindVolume(vmi, volume, dir)
		if err != nil {
			errs = append(errs, field.Invalid(spec.Child("volumes").Index(i), volume.Name, err.Error()))
			continue
		}
		if err := measure(&bound); err != nil {
			errs = append(errs, field.Invalid(spec.Child("volumes").Index(i), volume.Name, err.Error()))
		}
		bindings.Volumes[volume.Name] = bound
	}
	for i, nic := range vmi.Spec.Domain.Devices.Interfaces {
		bound, err := h.bindNIC(vmi, nic)
		if err != nil {
			errs = append(errs, field.Invalid(spec.Child("domain", "devices", "interfaces").Index(i), nic.Name, err.Error()))
			continue
		}
		bindings.NICs[nic.Name] = bound
	}
	if firmware := vmi.Spec.Domain.Firmware; firmware != nil && firmware.KernelBoot != nil && firmware.KernelBoot.Container != nil {
		if err := h.bindKernel(firmware.KernelBoot.Container, &bindings); err != nil {
			path := spec.Child("domain", "firmware", "kernelBoot", "container")
			errs = append(errs, field.Invalid(path, firmware.KernelBoot.Container.Image, err.Error()))
		}
	}
	return bindings, append(errs, h.bindFirmware(vmi, dir, &bindings)...)
}

// bindFirmware is what firmware, TPM and consoles have of their own.
func (h *BareMachine) bindFirmware(vmi *v1.VirtualMachineInstance, dir string, bindings *backend.Bindings) (errs field.ErrorList) {
	if err := bindIgnition(vmi, dir, bindings); err != nil {
		errs = append(errs, field.InternalError(field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation), err))
	}
	if err := h.bindTPM(vmi, bindings); err != nil {
		errs = append(errs, field.InternalError(field.NewPath("spec", "domain", "devices", "tpm"), err))
	}
	bindings.NVRAM = filepath.Join(dir, "nvram.fd")
	bindings.VNC = filepath.Join(h.sockets(vmi), "vnc.sock")
	bindings.Serial = filepath.Join(dir, "serial.sock")
	bindings.SerialLog = filepath.Join(dir, "serial.log")
	return errs
}

// bindNIC chooses the host side of an interface: user-mode NAT for masquerade on the pod network, a bridge that the
// administrator named for the bridge binding.
func (h *BareMachine) bindNIC(vmi *v1.VirtualMachineInstance, nic v1.Interface) (backend.NIC, error) {
	switch {
	case nic.Masquerade != nil:
		return backend.NIC{Kind: "user"}, nil
	case nic.Bridge != nil:
		if bridge := h.Bridges[nic.Name]; bridge != "" {
			return backend.NIC{Kind: "bridge", Device: bridge, Guarded: h.Guard}, nil
		}
		return backend.NIC{}, fmt.Errorf("no bridge of this machine is named for network '%s' (launcher flag --bridge %s=BRIDGE); or use masquerade", nic.Name, nic.Name)
	}
	return backend.NIC{}, errors.New("this binding needs a cluster's network, which a bare machine does not have; use masquerade or bridge")
}

// Forget removes what lived as long as the VMI.
func (h *BareMachine) Forget(vmi *v1.VirtualMachineInstance) error {
	if vmi.UID == "" {
		return nil
	}
	return errors.Join(h.forgetTPM(vmi), os.RemoveAll(h.Folder(vmi)))
}
