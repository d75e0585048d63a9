package hostresources

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// kernelBoot are the paths of kernel and initrd in an image's tree.
type kernelBoot struct{ kernel, initrd string }

// kernelFiles finds the files of spec.domain.firmware.kernelBoot in the tree of their image, which open opens. The paths are empty for VMIs without
// kernelBoot. The files get no overlay, because QEMU only reads them.
func kernelFiles(firmware *v1.Firmware, open func(image string) (*Root, error)) (boot kernelBoot, errs field.ErrorList) {
	if firmware == nil || firmware.KernelBoot == nil || firmware.KernelBoot.Container == nil {
		return boot, nil
	}
	container, path := firmware.KernelBoot.Container, field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
	tree, err := open(container.Image)
	if err != nil {
		return boot, field.ErrorList{field.Invalid(path, container.Image, err.Error())}
	}
	defer tree.Close()
	for _, part := range []struct {
		file string
		to   *string
	}{{container.KernelPath, &boot.kernel}, {container.InitrdPath, &boot.initrd}} {
		if part.file == "" {
			continue
		}
		if *part.to, err = tree.regularFile(part.file); err != nil {
			return boot, field.ErrorList{field.Invalid(path, container.Image, err.Error())}
		}
	}
	return boot, nil
}
