package hostresources

import (
	"context"
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// firmwareFiles writes the fw_cfg files of a VMI and returns their paths by name. The only one is the configuration of Ignition, in annotation
// kubevirt.io/ignitiondata. It often contains a password: only root and QEMU may read it.
func firmwareFiles(ctx context.Context, vmi *v1.VirtualMachineInstance, folder string) (map[string]string, field.ErrorList) {
	data := vmi.Annotations[v1.IgnitionAnnotation]
	if data == "" {
		return nil, nil
	}
	ignition := file{path: filepath.Join(folder, "ignition.json"), content: []byte(data)}
	if err := ignition.ensureFile(ctx); err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation), err)}
	}
	return map[string]string{abi.Ignition: ignition.path}, nil
}
