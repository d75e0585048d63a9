package snapshot

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/pkg/internal/message"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// patchable are the beginnings of paths that patches of a restore may change, as in KubeVirt. They include Kiln's annotations, such as pins and identity, which
// are judged with the VM.
var patchable = []string{"/metadata/labels/", "/metadata/annotations/", "/spec/"}

const (
	// mostPatches and longestPatches bound the work of patches, which a tenant writes.
	mostPatches    = 1024
	longestPatches = 256 << 10
)

// checkPatches returns the mistakes in the patches of a restore or a clone. Each patch is an operation of RFC 6902 as JSON.
func checkPatches(patches []string, at *field.Path) (errs field.ErrorList) {
	_, errs = readPatches(patches, at)
	return errs
}

func readPatches(patches []string, at *field.Path) (all jsonpatch.Patch, errs field.ErrorList) {
	if len(patches) > mostPatches {
		return nil, field.ErrorList{field.TooMany(at, len(patches), mostPatches)}
	}
	size := 0
	for i, text := range patches {
		if size += len(text); size > longestPatches {
			return nil, append(errs, field.TooLong(at, "", longestPatches))
		}
		operation, err := readPatch(text)
		if err != nil {
			errs = append(errs, field.Invalid(at.Index(i), message.Short(text), err.Error()))
			continue
		}
		all = append(all, operation)
	}
	return all, errs
}

// readPatch reads one operation.
func readPatch(text string) (jsonpatch.Operation, error) {
	operation := jsonpatch.Operation{}
	if err := json.Unmarshal([]byte(text), &operation); err != nil {
		return nil, fmt.Errorf("is no operation of a JSON patch: %w", err)
	}
	path, err := operation.Path()
	if err != nil {
		return nil, fmt.Errorf("has no path: %w", err)
	}
	switch kind := operation.Kind(); kind {
	case "add", "remove", "replace", "test":
	case "move", "copy":
		from, err := operation.From()
		if err != nil {
			return nil, fmt.Errorf("has no 'from': %w", err)
		}
		if err := checkPatchable(from); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("has the unknown operation '%.32s'", kind)
	}
	return operation, checkPatchable(path)
}

func checkPatchable(path string) error {
	for _, prefix := range patchable {
		if strings.HasPrefix(path, prefix) && len(path) > len(prefix) {
			return nil
		}
	}
	return fmt.Errorf("changes '%.256s': only labels, annotations and fields below /spec may be patched", path)
}

// applyPatches returns a copy of a VM with patches applied, or the VM itself with errors.
func applyPatches(vm *v1.VirtualMachine, patches []string, at *field.Path) (*v1.VirtualMachine, field.ErrorList) {
	all, errs := readPatches(patches, at)
	if len(errs) > 0 || len(all) == 0 {
		return vm, errs
	}
	wrong := func(err error) field.ErrorList {
		return field.ErrorList{field.Forbidden(at, err.Error())}
	}
	text, err := json.Marshal(vm)
	if err != nil {
		return vm, wrong(err)
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = longestVM
	if text, err = all.ApplyWithOptions(text, options); err != nil {
		return vm, wrong(err)
	}
	after := &v1.VirtualMachine{}
	if err := json.Unmarshal(text, after); err != nil {
		return vm, wrong(err)
	}
	if after.Spec.Template == nil {
		return vm, field.ErrorList{field.Forbidden(at, "the template of the VM may not be removed")}
	}
	return after, nil
}
