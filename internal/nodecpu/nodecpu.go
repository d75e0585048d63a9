// Package nodecpu reads from the labels of nodes which CPUs they offer to guests, and judges recorded CPUs by it.
package nodecpu

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// Offer is what a node offers to guests. Labels of nodes are written by agents on the nodes, and may be wrong.
type Offer struct {
	// Features are all features of host-model. Models are the CPU models that the node offers without changes.
	Features, Models map[string]bool
	// Vendor is the vendor of the node's CPU; empty if no label names it, or if several do.
	Vendor string
	// Emulated reports that the offer is about guests without KVM. KubeVirt's labels do not say it.
	Emulated bool
}

// Source names the agent whose labels an Offer is read from.
type Source struct {
	feature, model, vendor string
	// emulated is the label of offers that are about guests without KVM; empty if the agent does not say it. Only offers count that are about guests without KVM
	// if emulates is true, and about guests with KVM otherwise.
	emulated string
	emulates bool
}

// Sources of labels.
var (
	// FromKiln are the labels of 'launcher cpu', which are about the QEMU of Kiln's pods with KVM.
	FromKiln = Source{feature: v1alpha1.LabelCPUFeature, model: v1alpha1.LabelCPUModel, vendor: v1alpha1.LabelCPUVendor, emulated: v1alpha1.LabelCPUEmulated}
	// FromKilnEmulated are these labels in clusters whose guests run without KVM.
	FromKilnEmulated = Source{FromKiln.feature, FromKiln.model, FromKiln.vendor, FromKiln.emulated, true}
	// FromKubeVirt are the labels of KubeVirt's node-labeller, which are about the QEMU of virt-launcher.
	FromKubeVirt = Source{feature: v1.CPUFeatureLabel, model: v1.CPUModelLabel, vendor: v1.CPUModelVendorLabel}
)

// SourceOf returns the labels that say which CPUs guests of a cluster have.
func SourceOf(cluster config.Cluster) Source {
	if cluster.Limits.KubeVirtGuests {
		return FromKubeVirt
	}
	return kilnSource(cluster.Pods.Emulate)
}

func kilnSource(emulates bool) Source {
	if emulates {
		return FromKilnEmulated
	}
	return FromKiln
}

// WithoutKVM reports whether the labels are about guests that run without KVM.
func (s Source) WithoutKVM() bool { return s.emulates }

// Opposite returns the labels of the same agent about guests with KVM in the place of guests without it, and the other way round. It returns false if the agent
// does not say which guests its labels are about.
func (s Source) Opposite() (Source, bool) {
	s.emulates = !s.emulates
	return s, s.emulated != ""
}

// Agent returns the name of the agent, and the prefix of its labels of features, for messages.
func (s Source) Agent() (name, label string) {
	if s == FromKubeVirt {
		return "KubeVirt's node-labeller", s.feature
	}
	return "'launcher cpu'", s.feature
}

// Read returns the offer of a node by its labels. It returns false if the agent has not reported features, or only features of guests that run otherwise: with
// KVM instead of without it, or without KVM instead of with it.
func (s Source) Read(labels map[string]string) (o Offer, reported bool) {
	o = Offer{Features: map[string]bool{}, Models: map[string]bool{}}
	vendors := 0
	for key, value := range labels {
		if value != "true" {
			continue
		}
		if name, found := strings.CutPrefix(key, s.feature); found {
			o.Features[name] = true
		} else if name, found := strings.CutPrefix(key, s.model); found {
			o.Models[name] = true
		} else if name, found := strings.CutPrefix(key, s.vendor); found {
			o.Vendor, vendors = name, vendors+1
		}
	}
	if vendors > 1 {
		o.Vendor = ""
	}
	o.Emulated = s.emulated != "" && labels[s.emulated] == "true"
	return o, len(o.Features) > 0 && o.Emulated == s.emulates
}

// Lack is what a node lacks of a recorded CPU.
type Lack struct {
	// Features that the node does not offer, sorted.
	Features []string
	// Model that the node does not offer; empty if it does, or if the guest needs only features.
	Model string
	// Vendor of the node, if the guest needs another; empty otherwise.
	Vendor string
}

// Missing returns what the node lacks of a recorded CPU. A CPU that was recorded for host-model lists all its features, and needs no model: libvirt makes it of
// features. host-passthrough needs nothing.
func (o Offer) Missing(recorded *record.CPU) (l Lack) {
	if recorded == nil || recorded.Requested == v1.CPUModeHostPassthrough || recorded.Requested == v1alpha1.CPURequestedNone {
		return l
	}
	for _, name := range recorded.Features {
		if !o.Features[name] {
			l.Features = append(l.Features, name)
		}
	}
	if recorded.Requested != v1.CPUModeHostModel && !o.Models[recorded.Model] {
		l.Model = recorded.Model
	}
	if recorded.Vendor != "" && o.Vendor != "" && o.Vendor != recorded.Vendor {
		l.Vendor = o.Vendor
	}
	return l
}

// Empty reports whether the node lacks nothing.
func (l Lack) Empty() bool { return len(l.Features) == 0 && l.Model == "" && l.Vendor == "" }

// String returns what is missing as messages write it, such as "features avx512f, pcommit". It is empty if nothing is.
func (l Lack) String() string {
	var texts []string
	if l.Model != "" {
		texts = append(texts, "CPU model '"+l.Model+"'")
	}
	if len(l.Features) > 0 {
		texts = append(texts, "CPU features "+record.ListFeatures(l.Features))
	}
	if l.Vendor != "" {
		texts = append(texts, "its vendor is "+l.Vendor)
	}
	return strings.Join(texts, ", ")
}

// Labels returns the labels that an agent of this source writes for an offer.
func (s Source) Labels(o Offer) map[string]string {
	labels := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(o.Features)) {
		labels[s.feature+name] = "true"
	}
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		labels[s.model+name] = "true"
	}
	if o.Vendor != "" {
		labels[s.vendor+o.Vendor] = "true"
	}
	if o.Emulated && s.emulated != "" {
		labels[s.emulated] = "true"
	}
	return labels
}

// Owns reports whether a label belongs to the source.
func (s Source) Owns(key string) bool {
	return strings.HasPrefix(key, s.feature) || strings.HasPrefix(key, s.model) || strings.HasPrefix(key, s.vendor) || key == s.emulated
}
