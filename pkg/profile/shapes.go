package profile

import (
	"reflect"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// What Go types do not say of the API: which fields exclude each other, what names the elements of a list, and what is replaced as a whole.
// TestShapes walks the spec of a VMI and finds types that no table decides about.

// choice is a set of fields of one struct of which a VMI has one at most. Each member is the name of a Go field.
type choice []string

// choices are the structs in which one field excludes another, by KubeVirt's API documentation and its rules (docs/reference/rules.md).
var choices = map[reflect.Type][]choice{
	reflect.TypeFor[v1.Bootloader](): {{"BIOS", "EFI"}},
	reflect.TypeFor[v1.CloudInitConfigDriveSource](): {{"UserDataSecretRef", "UserDataBase64", "UserData"},
		{"NetworkDataSecretRef", "NetworkDataBase64", "NetworkData"}},
	reflect.TypeFor[v1.CloudInitNoCloudSource](): {{"UserDataSecretRef", "UserDataBase64", "UserData"},
		{"NetworkDataSecretRef", "NetworkDataBase64", "NetworkData"}},
	reflect.TypeFor[v1.DiskDevice]():                          {{"Disk", "LUN", "CDRom"}},
	reflect.TypeFor[v1.Features]():                            {{"Hyperv", "HypervPassthrough"}},
	reflect.TypeFor[v1.GPU]():                                 {{"DeviceName", "ClaimRequest"}},
	reflect.TypeFor[v1.Handler]():                             {{"Exec", "GuestAgentPing", "HTTPGet", "TCPSocket"}},
	reflect.TypeFor[v1.HostDevice]():                          {{"DeviceName", "ClaimRequest"}},
	reflect.TypeFor[v1.Interface]():                           {{"InterfaceBindingMethod", "Binding"}, {"Ports", "PortRanges"}},
	reflect.TypeFor[v1.InterfaceBindingMethod]():              choiceOfAllFields[v1.InterfaceBindingMethod](),
	reflect.TypeFor[v1.LaunchSecurity]():                      {{"SEV", "SNP", "TDX"}},
	reflect.TypeFor[v1.NetworkSource]():                       choiceOfAllFields[v1.NetworkSource](),
	reflect.TypeFor[v1.SysprepSource]():                       {{"Secret", "ConfigMap"}},
	reflect.TypeFor[v1.VirtualMachineInstanceResourceClaim](): {{"ResourceClaimName", "ResourceClaimTemplateName"}},
	reflect.TypeFor[v1.VolumeSource]():                        choiceOfAllFields[v1.VolumeSource](),
	reflect.TypeFor[v1.WatchdogDevice]():                      {{"I6300ESB", "Diag288"}},
}

// choiceOfAllFields is one choice of all fields of a struct.
func choiceOfAllFields[T any]() []choice {
	var members choice
	of := reflect.TypeFor[T]()
	for _, f := range leaves.Fields(of) {
		members = append(members, of.Field(f.Index).Name)
	}
	return []choice{members}
}

// together are fields that only mean something together: a VMI with one of them gets none. Sockets beside the cores that a user wrote would
// multiply the vCPUs. The rules allow both members of an offset and of a block size, so that these are no choices.
var together = map[reflect.Type][]string{
	reflect.TypeFor[v1.BlockSize]():   {"Custom", "MatchVolume"},
	reflect.TypeFor[v1.ClockOffset](): {"UTC", "Timezone"},
	reflect.TypeFor[v1.CPU]():         {"Cores", "Sockets", "Threads"},
}

// names are the Go fields that name an element of a list. The elements of other lists have no names: such a list is filled if the VMI has none.
var names = map[reflect.Type][]string{
	reflect.TypeFor[v1.CPUFeature]():                          {"Name"},
	reflect.TypeFor[v1.Disk]():                                {"Name"},
	reflect.TypeFor[v1.Filesystem]():                          {"Name"},
	reflect.TypeFor[v1.GPU]():                                 {"Name"},
	reflect.TypeFor[v1.HostDevice]():                          {"Name"},
	reflect.TypeFor[v1.Input]():                               {"Name"},
	reflect.TypeFor[v1.Interface]():                           {"Name"},
	reflect.TypeFor[v1.Network]():                             {"Name"},
	reflect.TypeFor[v1.UtilityVolume]():                       {"Name"},
	reflect.TypeFor[v1.VirtualMachineInstanceResourceClaim](): {"Name"},
	reflect.TypeFor[v1.Volume]():                              {"Name"},
	// The schema of KubeVirt has both as the keys of this list.
	reflect.TypeFor[corev1.TopologySpreadConstraint](): {"TopologyKey", "WhenUnsatisfiable"},
}

// whole are structs that the API replaces as a whole (structType=atomic): half of a selector selects something else.
var whole = map[reflect.Type]bool{
	reflect.TypeFor[corev1.LocalObjectReference](): true,
	reflect.TypeFor[corev1.NodeSelector]():         true,
	reflect.TypeFor[metav1.LabelSelector]():        true,
}

// isWhole reports whether a value of the type has no fields that are filled one by one.
func isWhole(t reflect.Type) bool {
	return t.Kind() != reflect.Struct || whole[t] || leaves.Whole(t)
}

// rivalFields returns the indices of the fields that exclude a field of a struct, and a name of the choice; nil if the field is in no choice.
func rivalFields(of reflect.Type, index int) (fields []int, name string) {
	own := of.Field(index).Name
	for _, c := range choices[of] {
		fields, found := []int(nil), false
		for _, member := range c {
			f, _ := of.FieldByName(member)
			if member == own {
				found = true
			} else {
				fields = append(fields, f.Index[0])
			}
		}
		if found {
			return fields, c[0]
		}
	}
	return nil, ""
}
