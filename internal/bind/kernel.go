package bind

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// kernelBoot are the paths of kernel and initrd in an image's tree.
type kernelBoot struct{ kernel, initrd string }

// kernelBoot finds the files of spec.domain.firmware.kernelBoot. They are empty for VMIs without it.
func (h *BareMachine) kernelBoot(firmware *v1.Firmware) (kernelBoot, field.ErrorList) {
	if firmware == nil || firmware.KernelBoot == nil || firmware.KernelBoot.Container == nil {
		return kernelBoot{}, nil
	}
	boot, err := h.bootFiles(firmware.KernelBoot.Container)
	if err != nil {
		path := field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
		return boot, field.ErrorList{field.Invalid(path, firmware.KernelBoot.Container.Image, err.Error())}
	}
	return boot, nil
}

// bootFiles finds kernel and initrd in the tree of an image. Each is optional. Unlike a disk, neither gets an overlay: QEMU only reads them.
func (h *BareMachine) bootFiles(container *v1.KernelBootContainer) (boot kernelBoot, err error) {
	if container.KernelPath != "" {
		if boot.kernel, err = h.Volumes.imageFile(container.Image, container.KernelPath); err != nil {
			return boot, err
		}
	}
	if container.InitrdPath != "" {
		boot.initrd, err = h.Volumes.imageFile(container.Image, container.InitrdPath)
	}
	return boot, err
}
