// Package commoncpu finds the CPU that several nodes have in common, by the labels of the nodes, and says which nodes limit it. Agents on the nodes write the
// labels. A node that lies can hide what it has, so that the nodes have less in common, but it cannot add anything.
package commoncpu

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
)

const (
	// mostFeatures and mostBytes bound the features of one node, and so the common ones. A host of today has about 250 with 2 KiB. A node with more does not
	// count. A profile with as many features, each with its policy, still fits into the half of its spec that profile.WithCommonCPU may fill.
	mostFeatures, mostBytes = 512, 12 << 10
	// mostLimits, mostNames and mostGained bound the lists of a status.
	mostLimits, mostNames, mostGained = 8, 8, 32
)

// notRequired is the feature that no guest gets by a common CPU. libvirt does not migrate a guest with it, and KubeVirt starts it only with a TSC frequency.
// KubeVirt's labels contain it, because its node-labeller asks libvirt for features of guests that need not migrate.
const notRequired = "invtsc"

// group are nodes that offer the same CPU. A cluster has a few generations of machines, however many nodes it has.
type group struct {
	vendor string
	// models are those that count, features all. Both are sorted.
	models, features []string
	names            []string
}

// Nodes collects what nodes offer. The order in which nodes are added has no effect.
type Nodes struct {
	source nodecpu.Source
	// groups are by their content.
	groups map[string]*group
	// byLabels are the groups by a digest of the labels of a node, so that only one of several nodes with the same labels is read.
	byLabels   map[uint64]*group
	seed       maphash.Seed
	unreported []string
	// arm64 counts the nodes of an architecture for which libvirt has no models.
	arm64 int
}

// NewNodes returns an empty collection of what an agent reports.
func NewNodes(source nodecpu.Source) *Nodes {
	return &Nodes{source: source, groups: map[string]*group{}, byLabels: map[uint64]*group{}, seed: maphash.MakeSeed()}
}

// AddNode adds a node by its name and labels.
func (n *Nodes) AddNode(name string, labels map[string]string) {
	architecture := labels[corev1.LabelArchStable]
	if architecture == "arm64" {
		n.arm64++
		return
	}
	digest := maphash.String(n.seed, architecture)
	for key, value := range labels {
		if n.source.Owns(key) {
			digest += maphash.Comparable(n.seed, [2]string{key, value}) // a sum, because the order of a map is random
		}
	}
	g, known := n.byLabels[digest]
	if !known {
		g = n.readGroup(labels, architecture)
		n.byLabels[digest] = g
	}
	if g == nil {
		n.unreported = append(n.unreported, name)
		return
	}
	g.names = append(g.names, name)
}

// readGroup returns the group of nodes with these labels; nil if they do not report a CPU that libvirt can have.
func (n *Nodes) readGroup(labels map[string]string, architecture string) *group {
	offer, reported := n.source.Read(labels)
	if offer.Vendor == "" && architecture == "s390x" {
		offer.Vendor = vendorOfS390X
	}
	delete(offer.Features, notRequired)
	if !reported || offer.Vendor == "" || len(offer.Features) > mostFeatures {
		return nil
	}
	maps.DeleteFunc(offer.Models, func(model string, _ bool) bool {
		_, counts := ageOf(offer.Vendor, model)
		return !counts
	})
	g := &group{vendor: offer.Vendor, models: slices.Sorted(maps.Keys(offer.Models)), features: slices.Sorted(maps.Keys(offer.Features))}
	if !g.isLegal() {
		return nil
	}
	content := strings.Join([]string{g.vendor, strings.Join(g.models, " "), strings.Join(g.features, " ")}, "\n")
	if n.groups[content] == nil {
		n.groups[content] = g
	}
	return n.groups[content]
}

// isLegal reports whether libvirt can have these names.
func (g *group) isLegal() bool {
	size := 0
	for _, name := range g.features {
		size += len(name)
	}
	// The model is any legal one: of the models, only those in generations and generic are left.
	return size <= mostBytes && record.CheckReportedCPU(&v1alpha1.ReportedCPU{Model: generic[0], Vendor: g.vendor, Features: g.features}) == nil
}

// Finding is what nodes have in common. The status has no model, vendor and features if they have no CPU in common.
type Finding struct {
	Status v1alpha1.CommonCPUStatus
	// Reason and Message are the reason and the message of v1alpha1.ConditionCommonCPU.
	Reason, Message string
}

// Find returns what the nodes have in common.
func (n *Nodes) Find() (f Finding) {
	slices.Sort(n.unreported)
	f.Status.Unreported, f.Status.UnreportedNodes = int32(len(n.unreported)), firstNames(n.unreported, mostNames)
	var groups []*group
	for _, g := range n.groups {
		slices.Sort(g.names)
		groups = append(groups, g)
		f.Status.Nodes += int32(len(g.names))
	}
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.names[0], b.names[0]) })
	c := countOffers(groups)
	all := c.without(nil)
	switch {
	case len(groups) == 0:
		f.Reason, f.Message = v1alpha1.ReasonNoNodes, n.describeNoNodes()
		return f
	case len(c.vendors) > 1:
		f.Reason, f.Message = v1alpha1.ReasonVendorsDiffer, describeVendors(groups)+". Select nodes of one vendor with spec.commonCPU.nodeSelector"
	case all.model == "":
		f.Reason = v1alpha1.ReasonNoModel
		f.Message = fmt.Sprintf("no CPU model that Kiln knows is common to %s of vendor '%s'", countNodes(f.Status.Nodes), groups[0].vendor)
	default:
		f.Status.Model, f.Status.Vendor, f.Status.Features = all.model, groups[0].vendor, all.features
		f.Reason = v1alpha1.ReasonCommon
		f.Message = fmt.Sprintf("CPU model '%s' and %d features are common to %s", all.model, len(all.features), countNodes(f.Status.Nodes))
	}
	f.Status.LimitedBy = c.findLimits(all)
	f.Message += describeLimits(f.Status.LimitedBy)
	return f
}

// describeNoNodes says why no node counts.
func (n *Nodes) describeNoNodes() string {
	switch {
	case n.arm64 > 0 && len(n.unreported) == 0:
		return "the nodes are of architecture arm64, for which libvirt has no CPU models: guests there have the model 'host-passthrough'"
	case len(n.unreported) > 0:
		return fmt.Sprintf("no CPU is in the labels of %s, such as %s", countNodes(int32(len(n.unreported))), n.unreported[0])
	}
	return "spec.commonCPU selects no node"
}

// describeVendors returns the vendors with the number of their nodes and the name of one.
func describeVendors(groups []*group) string {
	nodes, first := map[string]int32{}, map[string]string{}
	for _, g := range groups { // in the order of their first names
		nodes[g.vendor] += int32(len(g.names))
		first[g.vendor] = cmp.Or(first[g.vendor], g.names[0])
	}
	vendors := slices.Sorted(maps.Keys(nodes))
	var texts []string
	for _, vendor := range vendors[:min(len(vendors), mostNames)] {
		texts = append(texts, fmt.Sprintf("%s of vendor '%s', such as %s", countNodes(nodes[vendor]), vendor, first[vendor]))
	}
	return "CPUs of several vendors have no model in common: " + strings.Join(texts, "; ")
}

// describeLimits says which nodes limit the CPU most.
func describeLimits(limits []v1alpha1.CommonCPULimit) string {
	if len(limits) == 0 {
		return ""
	}
	l := limits[0]
	text := fmt.Sprintf(". Without %s, the other nodes would have ", l.Names[0])
	if l.Nodes > 1 {
		text = fmt.Sprintf(". Without %s such as %s, the other nodes would have ", countNodes(l.Nodes), l.Names[0])
	}
	var gained []string
	if l.Model != "" {
		gained = append(gained, "model '"+l.Model+"'")
	}
	if l.Features > 0 {
		listed := firstNames(l.FeatureNames, mostNames)
		more := "features " + strings.Join(listed, ", ")
		if left := int(l.Features) - len(listed); left > 0 {
			more += fmt.Sprintf(" and %d more", left)
		}
		gained = append(gained, more)
	}
	return text + strings.Join(gained, " and ") + " in common"
}

func countNodes(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// firstNames returns a copy of the first names of a list.
func firstNames(all []string, most int) []string { return slices.Clone(all[:min(len(all), most)]) }
