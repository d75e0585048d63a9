package nodecpu

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// Vendor of CPUs and features that HostModel names.
const (
	intel = "Intel"
	// invtsc is a feature of the node that libvirt leaves out of host-model, because a guest with it cannot migrate.
	invtsc = "invtsc"
	// mpx is a feature that libvirt's models of old Intel processors have, and that newer processors and kernels lack. KubeVirt disables it in named models.
	mpx = "mpx"
)

// HostModel returns the CPU that host-model means on a node, by the labels of KubeVirt's node-labeller. It returns nil if the labels do not tell: if they name
// no model or several, no features, or a model that the node does not offer without changes. The labels do not name the features that such a model has and the
// node lacks. Labels of nodes may be wrong. KubeVirt: pkg/virt-handler/node-labeller, v1.9.
func HostModel(labels map[string]string) *v1alpha1.ReportedCPU {
	offer, reported := FromKubeVirt.Read(labels)
	var models []string
	for key, value := range labels {
		if name, found := strings.CutPrefix(key, v1.HostModelCPULabel); found && value == "true" {
			models = append(models, name)
		}
	}
	if !reported || len(models) != 1 || !offer.Models[models[0]] {
		return nil
	}
	delete(offer.Features, invtsc)
	cpu := &v1alpha1.ReportedCPU{Model: models[0], Vendor: offer.Vendor, Features: slices.Sorted(maps.Keys(offer.Features))}
	if offer.Vendor == intel && !offer.Features[mpx] {
		cpu.DisabledFeatures = []string{mpx}
	}
	if record.CheckReportedCPU(cpu) != nil {
		return nil
	}
	return cpu
}
