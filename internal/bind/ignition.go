package bind

import (
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// firmwareFiles are the files that a guest finds by the name of its firmware: the configuration of Ignition. It often holds a password, and lies where
// only root and libvirt's guests may read.
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
