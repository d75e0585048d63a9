package nodecpu

import (
	"slices"
	"strings"
	"unique"

	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
)

// Need is what a guest in a pod needs of the CPU of its node. Equal needs are equal by ==, and share their memory: most guests of a cluster have one of few
// CPUs.
type Need struct {
	// features are separated by commas, sorted.
	features      string
	model, vendor string
	// emulated reports that the guest runs without KVM.
	emulated bool
}

// machinePrefixes begin the machine types of an architecture. A record of another architecture is not about this guest's CPU: its owner has changed the
// architecture.
var machinePrefixes = map[string][]string{"amd64": {"pc-", "q35"}, "arm64": {"virt"}, "s390x": {"s390-ccw-virtio"}}

// NeedOf returns what a guest needs: the features that libvirt will be asked for. With host-model they are the features of the recorded CPU, as far as the spec
// does not add or disable features (package frontend). At a first boot only the features of the spec count. A named model is needed with the features of the
// spec. Without KVM only a recorded CPU counts: of other CPUs libvirt drops what QEMU does not emulate, and starts the guest. The record may be nil.
// record.Check must have accepted it.
func NeedOf(spec *v1.VirtualMachineInstanceSpec, recorded *record.Record, emulated bool) Need {
	cpu := spec.Domain.CPU
	if cpu == nil || cpu.Model == "" || cpu.Model == v1.CPUModeHostPassthrough {
		return Need{}
	}
	again := cpu.Model == v1.CPUModeHostModel && isRecorded(spec, recorded)
	if emulated && !again {
		return Need{}
	}
	var n Need
	features := map[string]bool{}
	if again {
		n.vendor = LabelName(recorded.CPU.Vendor)
		for _, name := range recorded.CPU.Features {
			features[name] = true
		}
	} else if cpu.Model != v1.CPUModeHostModel {
		n.model = LabelName(cpu.Model)
	}
	for _, f := range cpu.Features {
		switch f.Policy {
		case "", "require":
			features[f.Name] = true
		case "optional": // the recorded CPU has decided
		default: // libvirt gives a forced feature to the guest on each node
			delete(features, f.Name)
		}
	}
	var names []string
	for name := range features {
		if LabelName(name) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 && n.model == "" && n.vendor == "" {
		return Need{}
	}
	n.emulated = emulated
	n.features, n.model, n.vendor = unique.Make(strings.Join(names, ",")).Value(), unique.Make(n.model).Value(), unique.Make(n.vendor).Value()
	return n
}

// isRecorded reports whether the recorded CPU is the one that a guest with host-model will ask for.
func isRecorded(spec *v1.VirtualMachineInstanceSpec, recorded *record.Record) bool {
	if recorded == nil || recorded.CPU == nil || recorded.CPU.Requested != spec.Domain.CPU.Model {
		return false
	}
	return recorded.Machine == "" || slices.ContainsFunc(machinePrefixes[spec.Architecture], func(prefix string) bool {
		return strings.HasPrefix(recorded.Machine, prefix)
	})
}

// LabelName returns a name if a label can contain it, else an empty text: no node reports such a name, and no pod could select it.
func LabelName(name string) string {
	if len(validation.IsQualifiedName(name)) > 0 || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// Size returns how many bytes are in a need.
func (n Need) Size() int { return len(n.features) + len(n.model) + len(n.vendor) }

// IsZero reports whether each node will do.
func (n Need) IsZero() bool { return n == Need{} }

// Labels returns the labels that a node has if it offers what is needed.
func (n Need) Labels() map[string]string {
	return FromKiln.Labels(n.asOffer())
}

// asOffer returns an offer that is just enough.
func (n Need) asOffer() Offer {
	o := Offer{Features: map[string]bool{}, Models: map[string]bool{}, Vendor: n.vendor, Emulated: n.emulated}
	for _, name := range n.names() {
		o.Features[name] = true
	}
	if n.model != "" {
		o.Models[n.model] = true
	}
	return o
}

func (n Need) names() []string {
	if n.features == "" {
		return nil
	}
	return strings.Split(n.features, ",")
}

// Fleet are the nodes of a cluster, as the pods of guests find them. It remembers its answers, and must not be kept: it does not follow changes.
type Fleet struct {
	nodes []corev1.Node
	// reporting has the nodes that say which CPUs guests have there without KVM (true) and with it (false).
	reporting map[bool]map[*corev1.Node]bool
	fitting   map[Need]map[*corev1.Node]bool
	lacks     map[Need]map[*corev1.Node]Lack
}

// NewFleet returns the fleet of these nodes.
func NewFleet(nodes []corev1.Node) *Fleet {
	return &Fleet{nodes: nodes, fitting: map[Need]map[*corev1.Node]bool{}, lacks: map[Need]map[*corev1.Node]Lack{}}
}

// Reports reports whether a node says which CPUs guests have there that run as the guest of the need does, with KVM or without. Nodes say nothing where
// 'launcher cpu' does not run, and where it does not know that the cluster emulates.
func (f *Fleet) Reports(n Need, node *corev1.Node) bool { return f.reports(n.emulated)[node] }

// Selects reports whether a pod can select nodes by the need: it is not zero, and a node reports.
func (f *Fleet) Selects(n Need) bool { return !n.IsZero() && len(f.reports(n.emulated)) > 0 }

func (f *Fleet) reports(emulated bool) map[*corev1.Node]bool {
	if f.reporting == nil {
		f.reporting = map[bool]map[*corev1.Node]bool{true: {}, false: {}}
		for i := range f.nodes {
			for emulated, reporting := range f.reporting {
				if node := &f.nodes[i]; kilnSource(emulated).isReporting(node.Labels) {
					reporting[node] = true
				}
			}
		}
	}
	return f.reporting[emulated]
}

// isReporting is the second result of Read.
func (s Source) isReporting(labels map[string]string) bool {
	if (labels[s.emulated] == "true") != s.emulates {
		return false
	}
	for key, value := range labels {
		if value == "true" && strings.HasPrefix(key, s.feature) {
			return true
		}
	}
	return false
}

// Fits reports whether a pod that selects nodes by the need would find a node. Without a node that reports, pods do not select, and each node fits.
func (f *Fleet) Fits(n Need, node *corev1.Node) bool {
	if !f.Selects(n) {
		return true
	}
	fitting, known := f.fitting[n]
	if !known {
		fitting = map[*corev1.Node]bool{}
		wanted := n.Labels()
		for reporting := range f.reports(n.emulated) {
			fitting[reporting] = hasLabels(reporting.Labels, wanted)
		}
		f.fitting[n] = fitting
	}
	return fitting[node]
}

// LackOf returns what a node lacks of the need.
func (f *Fleet) LackOf(n Need, node *corev1.Node) Lack {
	lack, known := f.lacks[n][node]
	if !known {
		cpu := &record.CPU{Requested: v1.CPUModeHostModel, Features: n.names(), Vendor: n.vendor}
		if n.model != "" {
			cpu.Requested, cpu.Model = n.model, n.model
		}
		offer, _ := FromKiln.Read(node.Labels)
		lack = offer.Missing(cpu)
		if f.lacks[n] == nil {
			f.lacks[n] = map[*corev1.Node]Lack{}
		}
		f.lacks[n][node] = lack
	}
	return lack
}

func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}
