package bind

import (
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// firmwareFiles returns the fw_cfg files of a VMI: the configuration of Ignition. It often contains a password, and only root and QEMU may read
// it.
func firmwareFiles(vmi *v1.VirtualMachineInstance, dir string) (map[string]string, field.ErrorList) {
	data := vmi.Annotations[v1.IgnitionAnnotation]
	if data == "" {
		return nil, nil
	}
	file := filepath.Join(dir, "ignition.json")
	if err := write(file, []byte(data)); err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation), err)}
	}
	return map[string]string{abi.Ignition: file}, nil
}
