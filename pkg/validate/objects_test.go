package validate_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// Objects that no rule refuses. A fragment of YAML changes one as a merge patch does: maps are merged, lists replaced, null removes.
const (
	legalVMI = `
metadata: {name: guest, namespace: default}
spec:
  architecture: amd64
  domain:
    memory: {guest: 1Gi}
    devices: {}
`
	legalVM = `
metadata: {name: guest, namespace: default}
spec:
  runStrategy: Halted
  template:
    spec:
      domain: {}
`
	legalInstancetype = "{spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}"
	legalPreset       = "{spec: {domain: {}}}"
)

// object is a legal one, changed by fragments. Fields that the kind does not have are a mistake of the case.
func object[T any](t testing.TB, fragments ...string) *T {
	t.Helper()
	merged := []byte("{}")
	for _, fragment := range fragments {
		patch, err := yaml.YAMLToJSONStrict([]byte(fragment))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, fragment)
		}
		if string(patch) == "null" {
			continue
		}
		if merged, err = jsonpatch.MergePatch(merged, patch); err != nil {
			t.Fatal(err)
		}
	}
	var into T
	if err := yaml.UnmarshalStrict(merged, &into); err != nil {
		t.Fatalf("%v in:\n%s", err, fragments)
	}
	return &into
}

// inSpec puts a fragment below spec.
func inSpec(t testing.TB, fragment string) string {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(fragment))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, fragment)
	}
	return `{"spec":` + string(raw) + `}`
}

// spec is a VMI with this in its spec.
func spec(fragment string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList { return vmi(inSpec(t, fragment))(t, limits) }
}

// vmi is a VMI with all of these in its metadata and spec.
func vmi(fragments ...string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList {
		guest := object[v1.VirtualMachineInstance](t, append([]string{legalVMI}, fragments...)...)
		if names := validate.Undeclared(guest, limits); len(names) > 0 {
			t.Errorf("functions refuse by rules that their literals do not list: %v", names)
		}
		return withNamedArchitectures(t, guest, append(validate.Guest(guest, limits, nil), validate.VMI(guest)...))
	}
}

// withNamedArchitectures returns errs. NamesArchitecture must be true for the errors whose messages have the architecture of the guest, and for no others.
func withNamedArchitectures(t testing.TB, guest *v1.VirtualMachineInstance, errs field.ErrorList) field.ErrorList {
	t.Helper()
	for _, err := range errs {
		named := strings.Contains(err.Detail, "architecture '"+guest.Spec.Architecture+"'")
		if got := validate.NamesArchitecture(err, validate.Draft{Explicit: guest}); got != named {
			t.Errorf("rule '%s' names the architecture: %t, and its message is '%s'", err.Origin, got, err.Detail)
		}
	}
	return errs
}

// growing is the guest of a VM with this in its spec: it may have to grow while it runs.
func growing(fragment string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList {
		guest := object[v1.VirtualMachineInstance](t, legalVMI, inSpec(t, fragment))
		return withNamedArchitectures(t, guest, append(validate.Guest(guest, limits, nil), validate.Growth(guest, limits, nil)...))
	}
}

// vm is a VM that is created with all of these in it. Its guest is not judged.
func vm(fragments ...string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList {
		return validate.VM(object[v1.VirtualMachine](t, append([]string{legalVM}, fragments...)...), nil, limits)
	}
}

// vmChange is a VM that had the first and gets the second as well.
func vmChange(was, change string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList {
		return validate.VM(object[v1.VirtualMachine](t, legalVM, was, change), object[v1.VirtualMachine](t, legalVM, was), limits)
	}
}

// vmStatusChange is vmChange through the subresource status.
func vmStatusChange(was, change string) given {
	return func(t testing.TB, _ config.Limits) field.ErrorList {
		return validate.VMStatusUpdate(object[v1.VirtualMachine](t, legalVM, was, change), object[v1.VirtualMachine](t, legalVM, was))
	}
}

// vmiChange is a VMI that had the first and gets the second as well, from an account.
func vmiChange(by validate.Account, was, change string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList {
		return validate.GuestUpdate(changed(t, by, was, change), limits)
	}
}

// vmiStatusChange is vmiChange through the subresource status.
func vmiStatusChange(by validate.Account, was, change string) given {
	return func(t testing.TB, limits config.Limits) field.ErrorList {
		return validate.GuestStatusUpdate(changed(t, by, was, change), limits)
	}
}

func changed(t testing.TB, by validate.Account, was, change string) validate.GuestChange {
	t.Helper()
	return validate.GuestChange{
		New: object[v1.VirtualMachineInstance](t, legalVMI, was, change),
		Old: object[v1.VirtualMachineInstance](t, legalVMI, was),
		By:  by,
	}
}

// guestHardware is a record with this in its spec.
func guestHardware(fragment string) given {
	return func(t testing.TB, _ config.Limits) field.ErrorList {
		return validate.GuestHardware(&object[v1alpha1.GuestHardware](t, inSpec(t, fragment)).Spec, field.NewPath("spec"))
	}
}

// instancetype, preference and preset have this in their spec.
func instancetype(fragment string) given {
	return func(t testing.TB, _ config.Limits) field.ErrorList {
		return validate.Instancetype(&object[v1beta1.VirtualMachineInstancetype](t, legalInstancetype, inSpec(t, fragment)).Spec, field.NewPath("spec"))
	}
}

func preference(fragment string) given {
	return func(t testing.TB, _ config.Limits) field.ErrorList {
		return validate.Preference(&object[v1beta1.VirtualMachinePreference](t, inSpec(t, fragment)).Spec, field.NewPath("spec"))
	}
}

func preset(fragment string) given {
	return func(t testing.TB, _ config.Limits) field.ErrorList {
		return validate.Preset(&object[v1.VirtualMachineInstancePreset](t, legalPreset, inSpec(t, fragment)).Spec, field.NewPath("spec"))
	}
}
