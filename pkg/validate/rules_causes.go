package validate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// One mistake has one cause. Rules are independent, so that several rules refuse what one wrong value leads to: a disk with an invalid name has no volume,
// either. A user who reads two causes looks for two mistakes.

// Causes returns errs without the errors that only follow from another error: they are gone, or are mistakes by themselves, when the other is corrected. The
// Origin of an error is the name of its rule.
func Causes(errs field.ErrorList) field.ErrorList {
	if len(errs) < 2 {
		return errs
	}
	found := make(map[mistake]int, 3*len(errs))
	for _, err := range errs {
		for within := range anywhere {
			found[mistake{err.Origin, within.sharedPath(err.Field)}]++
		}
	}
	paired := map[[2]string]int{}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(explained[err.Origin], func(by explanation) bool {
			n := found[mistake{by.rule, by.within.sharedPath(err.Field)}]
			if by.within != pairwise {
				return n > 0
			}
			pair := [2]string{by.rule, err.Origin}
			paired[pair]++
			return paired[pair] <= n
		})
	})
}

// mistake is a rule with the place at which it refuses something.
type mistake struct{ rule, at string }

// scope is how near to each other a mistake and what follows from it are.
type scope int

const (
	sameField scope = iota
	// sameElement is the same element of a list, or what is in no list.
	sameElement
	// pairwise is anywhere, and one mistake explains one error of a rule: the others are about something else.
	pairwise
	anywhere
)

// sharedPath returns what paths within the scope have in common.
func (s scope) sharedPath(path string) string {
	switch s {
	case sameField:
		return "=" + path
	case sameElement:
		return path[:strings.LastIndexByte(path, ']')+1]
	default:
		return "*"
	}
}

// explanation is a rule whose errors explain the errors of another rule.
type explanation struct {
	rule   string
	within scope
}

// explained are the explanations of the errors of a rule, by its name.
var explained = func() map[string][]explanation {
	all := map[string][]explanation{}
	for _, c := range consequences {
		for _, rule := range c.follow {
			for _, mistake := range c.of {
				all[rule] = append(all[rule], explanation{mistake, c.within})
			}
		}
	}
	return all
}()

// consequences are what follows from mistakes.
var consequences = []struct {
	why        string
	within     scope
	of, follow []string
}{
	{"what a machine has is not known without its architecture", anywhere, []string{"machine/architecture"}, []string{"machine/type", "memory/growth"}},
	{"fewer sockets are fewer vCPUs", sameField, []string{"cpu/sockets"}, []string{"cpu/most"}},
	{"fewer threads are fewer vCPUs", anywhere, []string{"cpu/dedicated-threads"}, []string{"cpu/most"}},
	{"arm64 allows fewer threads than other architectures", anywhere, []string{"cpu/dedicated-threads-arm64"}, []string{"cpu/dedicated-threads", "cpu/most"}},
	{"the cause is that dedicatedCpuPlacement is missing", anywhere, []string{"cpu/realtime-dedicated"}, []string{"cpu/isolated-emulator", "cpu/numa-dedicated"}},
	{"KubeVirt's guests cannot have the annotation, whatever its value", sameField, []string{"kubevirt/numa-nodes"}, []string{"cpu/numa-nodes-number"}},

	{"an invalid amount fits nothing", anywhere, []string{"memory/guest", "memory/unit"},
		[]string{"memory/growth", "memory/numa-pages", "memory/numa-nodes", "resources/page-size"}},
	{"no amount is a multiple of an invalid page size, which gives the memory if nothing else does", anywhere,
		[]string{"memory/page-size", "memory/page-size-unit", "memory/page-size-architecture"},
		[]string{"memory/guest", "memory/numa-pages", "resources/page-size", "resources/page-multiple"}},
	{"both compare with the size of a page", anywhere, []string{"resources/page-size", "resources/page-multiple"}, []string{"memory/numa-pages"}},
	{"the request or the limit gives the memory if nothing else does", anywhere, []string{"resources/request-negative", "resources/limit-negative"},
		[]string{"memory/guest"}},

	{"encryption needs a guest without secure boot, which then needs no SMM", anywhere, []string{"security/encryption-secure-boot"},
		[]string{"firmware/secure-boot-smm"}},
	{"both ask for startStrategy 'Paused'", anywhere, []string{"placement/start-strategy"}, []string{"security/sev-attestation"}},

	{"only an effect that exists has seconds", sameElement, []string{"placement/toleration-effect"}, []string{"placement/toleration-seconds"}},
	{"enlightenments that are off need no feature of the CPU", anywhere, []string{"features/hyperv-needs"}, []string{"features/evmcs-vmx"}},
	{"what a disk can have depends on its bus", sameElement, []string{"disks/bus"},
		[]string{"disks/pci-bus", "disks/dedicated-iothread", "disks/block-size-sata", "disks/metrics-bus"}},
	{"other sizes are compared with an invalid size", sameElement, []string{"disks/block-size-small", "disks/block-size-large", "disks/block-size-power"},
		[]string{"disks/block-size-order", "disks/discard-granularity"}},
	{"a smaller logical size divides what a greater one does not", sameElement, []string{"disks/block-size-order"}, []string{"disks/discard-granularity"}},
	{"nothing refers to what has no name, and what has no name refers to nothing", pairwise, []string{"disks/name"},
		[]string{"disks/disk-volume", "disks/directory-as-disk", "disks/metrics-bus", "firmware/acpi-volume"}},
	{"a volume that no disk names gets a disk, on the default's bus", pairwise, []string{"disks/disk-volume"}, []string{"disks/metrics-bus"}},
	{"a directory that no file system names gets a disk", pairwise, []string{"devices/name", "devices/name-form"}, []string{"disks/directory-as-disk"}},
	{"a template is used by the name of its DataVolume", pairwise, []string{"disks/volume-object-name", "disks/volume-reference"},
		[]string{"disks/template-unused"}},

	{"what has no name belongs to no network", sameField, []string{"networks/interface-name"},
		[]string{"networks/network-missing", "networks/masquerade-pod", "networks/passt-pod"}},
	{"an interface that belongs to no network is on no pod network", sameField, []string{"networks/network-missing"},
		[]string{"networks/masquerade-pod", "networks/passt-pod"}},
	{"the network belongs to an interface with a wrong name", pairwise, []string{"networks/interface-name", "networks/network-missing"},
		[]string{"networks/interface-missing"}},
	{"a network of no type is not the pod network", anywhere, []string{"networks/type"},
		[]string{"networks/masquerade-pod", "networks/passt-pod", "placement/probe-network"}},
	{"what an interface can have depends on its binding", sameElement, []string{"networks/binding"},
		[]string{"networks/absent-bridge", "networks/ranges-masquerade"}},
	{"the cause says which bindings there are", sameField, []string{"networks/claim-binding"}, []string{"networks/binding"}},
	{"a range without an end has no order", sameElement, []string{"networks/range-start", "networks/range-end"}, []string{"networks/range-order"}},
	{"nothing refers to what has no name", pairwise, []string{"hostdevices/claim-name", "hostdevices/claim-name-given"},
		[]string{"hostdevices/claim-undeclared", "networks/claim-undeclared"}},
}
