package catalog

import "fmt"

// needing is a preference with requirements.
func needing(cpus, memory string) string {
	return fmt.Sprintf(`
kind: p
metadata: {name: needing, labels: {instancetype.kubevirt.io/required-cpu: "%s", instancetype.kubevirt.io/required-memory: %s}}
spec: {requirements: {cpu: {guest: %s}, memory: {guest: %s}}}`, cpus, memory, cpus, memory)
}

const (
	dedicated = `
metadata:
  name: dedicated
  labels: {instancetype.kubevirt.io/cpu: "4", instancetype.kubevirt.io/memory: 4Gi, instancetype.kubevirt.io/dedicatedCPUPlacement: "true"}
spec: {cpu: {guest: 4, dedicatedCPUPlacement: true}, memory: {guest: 4Gi}}`
)

var pairCases = []lintCase{
	{"too many CPUs", "catalog/requirement", []string{small, linux, needing("3", "1Gi")}, []string{small, linux, needing("2", "1Gi")}, "spec.requirements",
		[]string{"3 vCPUs and 1Gi of memory"}},
	{"too much memory", "catalog/requirement", []string{small, linux, needing("1", "4097Mi")}, []string{small, linux, needing("1", "4096Mi")},
		"spec.requirements", nil},
	{"an odd number", "catalog/requirement", []string{changed(changed(small, `"2"`, `"3"`), "guest: 2", "guest: 3"), linux, changed(pinned, "cores", "spread")},
		[]string{small, linux, changed(pinned, "cores", "spread")}, "spec.requirements", []string{"spread"}},
	{"in another namespace", "catalog/requirement", []string{small, linux, inNamespace(needing("4", "1Gi"), "shop"), changed(changed(ofNamespace("yard"),
		`"2"`, `"4"`), "guest: 2", "guest: 4")},
		[]string{small, linux, inNamespace(needing("4", "1Gi"), "yard"), changed(changed(ofNamespace("yard"), `"2"`, `"4"`), "guest: 2", "guest: 4")},
		"spec.requirements", nil},
	{"every preference wants more", "catalog/unusable-instancetype", []string{small, other, needing("3", "1Gi")}, []string{small, other, needing("2",
		"1Gi")}, "spec",
		[]string{"every preference of the catalog requires more"}},
	{"four threads of one core", "catalog/unusable-instancetype", []string{small, dedicated, changed(pinned, "cores", "threads")},
		[]string{small, dedicated, changed(pinned, "cores", "threads"), linux}, "spec", []string{"none of the 1 preferences", "threads per core"}},
	{"EFI with encryption alone", "catalog/unusable-preference", []string{changed(small, "memory: {guest: 4Gi}",
		"memory: {guest: 4Gi}, nodeSelector: {kubernetes.io/arch: s390x}"), efi, linux},
		[]string{changed(small, "memory: {guest: 4Gi}", "memory: {guest: 4Gi}, nodeSelector: {kubernetes.io/arch: amd64}"), efi, linux}, "spec",
		[]string{"none of the 1 instancetypes", "no EFI"}},
	{"what the architecture lacks", "catalog/boot", []string{small, linux, sata("arm64")}, []string{small, linux, sata("amd64")}, "spec.preferredArchitecture",
		[]string{"'arm64'", `supported values: "scsi", "virtio"`}},
	{"two architectures", "catalog/boot", []string{small, linux, twoArchitectures("s390x")}, []string{small, linux, twoArchitectures("arm64")},
		"spec.preferredArchitecture", []string{"'s390x'", "requires 'arm64'"}},
	{"an architecture that nobody has", "catalog/boot", []string{small, linux, sata("vax")}, []string{small, linux, sata("amd64")},
		"spec.preferredArchitecture", []string{"'vax'"}},
	{"no architecture has it", "catalog/boot", []string{small, linux, changed(changed(linux, "preferredDiskBus: virtio", "preferredDiskBus: ide"),
		"name: linux", "name: ide")}, []string{small, linux}, "spec",
		[]string{"on any architecture; on 'amd64'"}},
	{"a model of another architecture", "catalog/boot", []string{small, linux, modelled("arm64")}, []string{small, linux, modelled("amd64")},
		"spec.nodeSelector[kubernetes.io/arch]", []string{"'arm64'"}},
}

const efi = `
kind: p
metadata: {name: efi}
spec: {firmware: {preferredEfi: {secureBoot: false}}}`

func inNamespace(preference, name string) string {
	return changed(changed(preference, "kind: p", "kind: VirtualMachinePreference"), "metadata: {", "metadata: {namespace: "+name+", ")
}

func sata(architecture string) string {
	return fmt.Sprintf(`
kind: p
metadata: {name: sata, labels: {instancetype.kubevirt.io/preferred-architecture: %s}}
spec: {preferredArchitecture: %s, devices: {preferredDiskBus: sata}}`, architecture, architecture)
}

func modelled(architecture string) string {
	return fmt.Sprintf(`
metadata: {name: modelled, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi}}
spec: {cpu: {guest: 2, model: Nehalem}, memory: {guest: 4Gi}, nodeSelector: {kubernetes.io/arch: %s}}`, architecture)
}

func twoArchitectures(preferred string) string {
	return fmt.Sprintf(`
kind: p
metadata: {name: two, labels: {instancetype.kubevirt.io/preferred-architecture: %s, instancetype.kubevirt.io/required-architecture: arm64}}
spec: {preferredArchitecture: %s, requirements: {architecture: arm64}}`, preferred, preferred)
}
