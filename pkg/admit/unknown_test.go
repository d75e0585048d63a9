package admit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// What is not known yet may mend what it could give; everything else is refused when the VM is written.
func TestWhatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	small := &instancetype.Instancetype{Spec: decode[v1beta1.VirtualMachineInstancetypeSpec](t, `{cpu: {guest: 1}, memory: {guest: 2Gi, maxGuest: 1Gi}}`)}
	plain := &instancetype.Preference{}
	unbound := `{domain: {devices: {interfaces: [{name: default}]}}, networks: [{name: default, pod: {}}]}`
	for _, test := range []struct {
		name, why, spec string
		set             instancetype.Set
		want            []string
	}{
		{"binding, size to come", "no size binds an interface", unbound, instancetype.Set{Preference: plain},
			[]string{"spec.template.spec.domain.devices.interfaces[0]"}},
		{"binding, preference to come", "it may be masquerade, but no preference mends memory beyond its ceiling", unbound, instancetype.Set{Instancetype: small},
			[]string{"spec.instancetype"}}, // which sets it
		{"own CPUs, size to come", "it says how many", `{domain: {cpu: {dedicatedCpuPlacement: true}, devices: {}}}`, instancetype.Set{Preference: plain}, nil},
		{"Secure Boot, both to come", "a preference may give SMM", `{domain: {firmware: {bootloader: {efi: {}}}, devices: {}}}`, instancetype.Set{}, nil},
		{"Secure Boot, size to come", "TDX needs no SMM, and sizes may ask for it",
			`{domain: {firmware: {bootloader: {efi: {}}}, devices: {}}}`, instancetype.Set{Preference: plain}, nil},
		{"name", "neither gives one", `{hostname: "-", domain: {devices: {}}}`, instancetype.Set{}, []string{"spec.template.spec.hostname"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			always := v1.RunStrategyAlways
			vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: &always,
				Instancetype: &v1.InstancetypeMatcher{Name: "a"}, Preference: &v1.PreferenceMatcher{Name: "b"},
				Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: decode[v1.VirtualMachineInstanceSpec](t, test.spec)}}}
			_, verdict := VM(vm, nil, Input{Set: test.set, Cluster: config.Default()})
			var got []string
			for _, err := range verdict.Errors {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}
