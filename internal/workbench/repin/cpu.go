package repin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/cpucheck"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A current CPU is taken by a mark in the record: the next boot records the CPU that it finds, and later boots keep it. So the request has an effect once,
// wherever the guest runs, and no manifest of the VM says anything about it. Only those may do it who may write records.

// PlanCPU returns the GuestHardware of a VM, and what the guest may notice if its next boot records the CPU anew: the difference of the recorded CPU and of the
// CPUs of the nodes that it may start on. It fails if a new record would not change the CPU.
func PlanCPU(ctx context.Context, b *workbench.Bench, cluster client.Client, r workbench.Reviewed) (*v1alpha1.GuestHardware, Repinned, error) {
	planned := Repinned{Object: r.Name()}
	hardware, err := ownership.ReadHardware(ctx, cluster, client.ObjectKeyFromObject(r))
	if err != nil {
		return nil, planned, err
	}
	if ownership.GuestOf(r.Guest.VM).Ownership(hardware) != ownership.Own || hardware.Spec.Hardware == nil || hardware.Spec.Hardware.CPU == nil {
		return nil, planned, errors.New("no CPU is recorded, so the next boot records the CPU of its node")
	}
	if err := record.Check(hardware.Spec.Hardware); err != nil {
		return nil, planned, fmt.Errorf("GuestHardware '%s': %w", hardware.Name, err)
	}
	recorded := hardware.Spec.Hardware.CPU
	if recorded.Requested == v1alpha1.CPURequestedNone {
		return nil, planned, errors.New("the next boot already records the CPU of its node")
	}
	if recorded.Requested != v1.CPUModeHostModel {
		return nil, planned, fmt.Errorf("spec.domain.cpu.model '%s' decides the CPU, and not the record: edit the VM, its instancetype or its preference",
			recorded.Requested)
	}
	planned.CPU = &PinChange{Before: recorded.Model}
	planned.Difference.Before, planned.Difference.After = "the recorded CPU", "the CPU of the node of the next boot"
	configuration, _, err := b.Configuration(ctx, r.Inputs)
	if err != nil {
		return nil, planned, err
	}
	nodes, err := cpucheck.ReadFleet(ctx, cluster, nodecpu.SourceOf(configuration.Cluster))
	if err != nil { // who may write records may not be allowed to list nodes
		planned.Difference.Verdict, planned.Difference.Unknown = record.PartCPU.Verdict(), "what the guest notices is not known: "+err.Error()
		planned.Difference.Changes = []record.Change{}
		return hardware, planned, nil
	}
	planned.Difference.Changes = compareOffers(recorded, nodes.Offers(fleet.PodOf(&r.Guest.Explicit.Spec)), r.Guest.Explicit.Spec.Domain.CPU)
	planned.Difference.Verdict = record.Judge(planned.Difference.Changes)
	if len(planned.Difference.Changes) == 0 {
		planned.Difference.Unknown = "no node that the guest may start on reports another CPU"
	}
	return hardware, planned, nil
}

// mostNodes is the number of nodes that a change names.
const mostNodes = 3

// compareOffers returns what a guest notices on nodes whose CPU differs from the recorded one. Labels do not tell the model that libvirt will name.
func compareOffers(recorded *record.CPU, offers []fleet.Offered, asked *v1.CPU) (changes []record.Change) {
	changes = []record.Change{}
	before := &record.CPU{Vendor: recorded.Vendor, Features: recorded.Features}
	for _, offer := range offers {
		features := maps.Clone(offer.Features)
		if asked != nil { // features of the spec win
			for _, f := range asked.Features {
				switch cmp.Or(f.Policy, "require") {
				case "require", "force":
					features[f.Name] = true
				case "disable", "forbid":
					delete(features, f.Name)
				}
			}
		}
		text := record.DescribeCPUChange(before, &record.CPU{Vendor: offer.Vendor, Features: slices.Sorted(maps.Keys(features))})
		if text == "" {
			continue
		}
		names := strings.Join(offer.Nodes[:min(len(offer.Nodes), mostNodes)], ", ")
		if more := len(offer.Nodes) - mostNodes; more > 0 {
			names += fmt.Sprintf(" and %d more nodes", more)
		}
		changes = append(changes, record.Change{Part: record.PartCPU, Verdict: record.PartCPU.Verdict(),
			Text: record.PartCPU.Changes() + " on " + names + ": " + text})
	}
	return changes
}

// ForgetCPU has the next boot record the CPU of a GuestHardware anew. It fails with a conflict if the GuestHardware has changed since it was read.
func ForgetCPU(ctx context.Context, cluster client.Client, hardware *v1alpha1.GuestHardware) error {
	changed := hardware.DeepCopy()
	changed.Spec.Hardware = render.ForgetCPU(hardware.Spec.Hardware)
	err := objects.Patch(ctx, cluster, changed, hardware)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w. Users who may 'administer' guesthardwares may take a new CPU; the owner of a VM may set annotation '%s: %s', with which each boot "+
			"takes new hardware", err, v1alpha1.AnnotationHardware, v1alpha1.HardwareLatest)
	}
	return err
}

// WaitsForNode reports whether the VMI of a name has no node yet. Its pod selects nodes by the CPU that was recorded when the pod was created, and a pod keeps
// its selectors.
func WaitsForNode(ctx context.Context, cluster client.Client, name client.ObjectKey) (bool, error) {
	vmi, err := objects.GetOrNil(ctx, cluster, name, &v1.VirtualMachineInstance{})
	return vmi != nil && !vmi.IsFinal() && vmi.Status.NodeName == "", err
}
