package profile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	v1 "kubevirt.io/api/core/v1"
)

// independent are the structs of a VMI's spec whose fields do not exclude each other, each with the number of its fields. A release of the API that
// adds a field makes this test fail: decide whether the field excludes another, then count it.
var independent = map[string]int{
	"k8s.Affinity": 3, "k8s.HTTPGetAction": 6, "k8s.NodeAffinity": 2, "k8s.PersistentVolumeClaimVolumeSource": 2, "k8s.PodAffinity": 2,
	"k8s.PodAntiAffinity": 2, "k8s.PodDNSConfig": 3, "k8s.TCPSocketAction": 2, "k8s.TopologySpreadConstraint": 8, "kubevirt.ACPI": 2,
	"kubevirt.CDRomTarget": 3, "kubevirt.CPU": 10, "kubevirt.CPUFeature": 2, "kubevirt.Chassis": 5, "kubevirt.ClaimRequest": 2, "kubevirt.Clock": 2,
	"kubevirt.ConfigMapVolumeSource": 3, "kubevirt.ContainerDiskSource": 4, "kubevirt.ContainerPathVolumeSource": 2, "kubevirt.CustomBlockSize": 3,
	"kubevirt.DHCPOptions": 4, "kubevirt.DataVolumeSource": 2, "kubevirt.Devices": 25, "kubevirt.Disk": 12, "kubevirt.DiskTarget": 3,
	"kubevirt.DomainSpec": 13, "kubevirt.DownwardAPIVolumeSource": 2, "kubevirt.EFI": 2, "kubevirt.FeatureAPIC": 2, "kubevirt.FeatureHyperv": 14,
	"kubevirt.FeatureSpinlocks": 2, "kubevirt.FeatureVendorID": 2, "kubevirt.Filesystem": 2, "kubevirt.Firmware": 5, "kubevirt.HPETTimer": 2,
	"kubevirt.HostDisk": 4, "kubevirt.Input": 3, "kubevirt.KernelBoot": 2, "kubevirt.KernelBootContainer": 5, "kubevirt.LunTarget": 3,
	"kubevirt.Memory": 4, "kubevirt.MultusNetwork": 2, "kubevirt.Network": 2, "kubevirt.PITTimer": 2, "kubevirt.PersistentVolumeClaimVolumeSource": 2,
	"kubevirt.PodNetwork": 2, "kubevirt.Probe": 6, "kubevirt.RTCTimer": 3, "kubevirt.ReservedOverhead": 2, "kubevirt.ResourceRequirements": 3,
	"kubevirt.SEV": 4, "kubevirt.SecretVolumeSource": 3, "kubevirt.SoundDevice": 2, "kubevirt.SyNICTimer": 2, "kubevirt.TLBFlush": 3,
	"kubevirt.TPMDevice": 2, "kubevirt.Timer": 5, "kubevirt.UtilityVolume": 3, "kubevirt.VGPUDisplayOptions": 2,
	"kubevirt.VirtualMachineInstanceSpec": 23, "kubevirt.Volume": 2, "kubevirt.Watchdog": 2,
}

// listsWithoutNames are the elements of lists that are filled where the VMI has none.
var listsWithoutNames = strings.Fields(`
	kubevirt.AccessCredential kubevirt.DHCPPrivateOptions kubevirt.DownwardAPIVolumeFile kubevirt.PanicDevice kubevirt.Port kubevirt.PortRange
	k8s.DownwardAPIVolumeFile k8s.HTTPHeader k8s.NodeSelectorRequirement k8s.NodeSelectorTerm k8s.PodAffinityTerm k8s.PodDNSConfigOption
	k8s.PreferredSchedulingTerm k8s.Toleration k8s.WeightedPodAffinityTerm string`)

func typeName(t reflect.Type) string {
	if t.PkgPath() == "" {
		return t.String()
	}
	api, _, _ := strings.Cut(t.PkgPath(), ".io/")
	return api + "." + t.Name()
}

// TestShapes: the tables decide about every struct and every list of the spec.
func TestShapes(t *testing.T) {
	t.Parallel()
	seen, used := map[reflect.Type]bool{}, map[string]bool{}
	var walk func(of reflect.Type, path string, keyed bool)
	walk = func(of reflect.Type, path string, keyed bool) {
		switch {
		case of.Kind() == reflect.Pointer:
			walk(of.Elem(), path, keyed)
		case isWhole(of) && of.Kind() == reflect.Struct:
		case of.Kind() == reflect.Slice:
			name := typeName(of.Elem())
			used[name] = true
			if named := names[of.Elem()] != nil; named == slices.Contains(listsWithoutNames, name) {
				t.Errorf("%s: is a list of %s with names or without?", path, name)
			} else if named {
				walk(of.Elem(), path+"[]", true)
			}
		case of.Kind() == reflect.Map:
			if keyed {
				t.Errorf("%s: a map in an element of a list: putKey takes the path from the type", path)
			}
		case of.Kind() == reflect.Interface:
			t.Errorf("%s: %s", path, of)
		case of.Kind() == reflect.Struct && !seen[of]:
			seen[of] = true
			fields := leaves.Fields(of)
			if name := typeName(of); choices[of] == nil && len(fields) > max(1, len(together[of])) {
				used[name] = true
				if independent[name] != len(fields) {
					t.Errorf("%s: does one of the %d fields of %s exclude another?", path, len(fields), name)
				}
			}
			for _, f := range fields {
				walk(of.Field(f.Index).Type, path+"."+f.Name, keyed)
			}
		}
	}
	walk(reflect.TypeFor[v1.VirtualMachineInstanceSpec](), "spec", false)
	for name := range independent {
		if !used[name] {
			t.Errorf("the spec has no %s", name)
		}
	}
	for of := range choices {
		if !seen[of] {
			t.Errorf("the spec has no %s", of)
		}
	}
	for of := range names {
		if !seen[of] {
			t.Errorf("the spec has no list of %s", of)
		}
	}
}

// freeFields are the fields of structs with a choice that are members of none.
var freeFields = map[string]int{"kubevirt.GPU": 3, "kubevirt.HostDevice": 2, "kubevirt.VirtualMachineInstanceResourceClaim": 1, "kubevirt.Features": 5,
	"kubevirt.Interface": 9}

// TestChoices: each member is a field of its struct, and in one choice.
func TestChoices(t *testing.T) {
	t.Parallel()
	for of, all := range choices {
		members := map[string]bool{}
		for _, c := range all {
			for _, member := range c {
				if _, found := of.FieldByName(member); !found || members[member] || len(c) < 2 {
					t.Errorf("%s: %s is no field, in two choices, or alone", of, member)
				}
				members[member] = true
			}
		}
		if free := len(leaves.Fields(of)) - len(members); free != freeFields[typeName(of)] {
			t.Errorf("%s: %d fields are in no choice, want %d: does a new one belong to a choice?", of, free, freeFields[typeName(of)])
		}
	}
	for of, fields := range together {
		for _, name := range fields {
			if _, found := of.FieldByName(name); !found {
				t.Errorf("%s: %s is no field", of, name)
			}
		}
	}
	for of, fields := range names {
		for _, name := range fields {
			if f, found := of.FieldByName(name); !found || f.Type.Kind() != reflect.String {
				t.Errorf("%s: %s is no text: %s", of, name, fmt.Sprint(f.Type))
			}
		}
	}
}
