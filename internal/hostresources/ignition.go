package hostresources

import (
	"context"
	"path/filepath"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// firmwareFiles writes the fw_cfg files of a VMI and returns their paths by name: the configuration of Ignition. It often contains a password, and
// only root and QEMU may read it. A VMI without annotation kubevirt.io/ignitiondata has none.
func firmwareFiles(ctx context.Context, vmi *v1.VirtualMachineInstance, folder string) (map[string]string, field.ErrorList) {
	data := vmi.Annotations[v1.IgnitionAnnotation]
	if data == "" {
		return nil, nil
	}
	ignition := file{path: filepath.Join(folder, "ignition.json"), content: []byte(data)}
	if err := ignition.ensure(ctx); err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("metadata", "annotations").Key(v1.IgnitionAnnotation), err)}
	}
	return map[string]string{abi.Ignition: ignition.path}, nil
}
