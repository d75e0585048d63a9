// Package repin pins a VM of a cluster to the current instancetype, preference, presets, profiles and configuration, or has it boot with a current CPU.
package repin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Repinned describes how repinning changes a VM.
type Repinned struct {
	Object       string     `json:"object"`
	DryRun       bool       `json:"dryRun"`
	Instancetype *PinChange `json:"instancetype,omitempty"`
	Preference   *PinChange `json:"preference,omitempty"`
	// Presets, Profiles and Configuration apply without a reference in the VM. The names of several presets, and of several profiles, are separated by
	// commas. Profiles includes the profiles that others extend.
	Presets       *PinChange `json:"presets,omitempty"`
	Profiles      *PinChange `json:"profiles,omitempty"`
	Configuration *PinChange `json:"configuration,omitempty"`
	// CPU has the model of the recorded CPU that the next boot records anew; nil if the CPU stays. After is empty, because the node of the boot decides.
	CPU *PinChange `json:"cpu,omitempty"`
	// Difference has the changes of the hardware at the next start.
	Difference guestdiff.Difference `json:"difference"`
}

// PinChange has the revisions of an instancetype, preference, preset, profile or configuration before and after; empty if there is no pin.
type PinChange struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// CheckReferences returns an error if a VM has no reference for a requested pin. keys are keys of the annotation kilnvm.io/pins.
func CheckReferences(r workbench.Reviewed, keys []string) error {
	for _, key := range keys {
		if key == "instancetype" && r.Guest.VM.Spec.Instancetype == nil || key == "preference" && r.Guest.VM.Spec.Preference == nil {
			return fmt.Errorf("it has no %s to pin", key)
		}
	}
	return nil
}

// Repin requests new pins by a patch, and returns the patched VM. Without keys, it requests all pins. It fails with a conflict if the
// VM has changed since it was read, because the difference was computed from that version.
func Repin(ctx context.Context, cluster client.Client, before *unstructured.Unstructured, keys []string, options ...client.PatchOption) (
	*unstructured.Unstructured, error) {
	after := before.DeepCopy()
	if err := pin.RequestRepin(after, keys...); err != nil {
		return nil, err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := cluster.Patch(ctx, after, patch, options...); err != nil {
		return nil, err
	}
	if pin.RepinPending(after) {
		return nil, errors.New("no webhook processed the repin request: does the VM have an instancetype or preference, and is Kiln's webhook running?")
	}
	return after, nil
}

// ReadPins compares the pins of the VM with the pins in the answer of the cluster. It warns if the webhook pinned another configuration than the
// bench read, because then the difference does not show the changes of the configuration.
func ReadPins(ctx context.Context, b *workbench.Bench, r workbench.Reviewed, answered *unstructured.Unstructured) (Repinned, []string, error) {
	was, is := pin.Read(r), pin.Read(answered)
	changed := Repinned{Object: r.Name()}
	if r.Guest.VM.Spec.Instancetype != nil {
		changed.Instancetype = &PinChange{was.Instancetype, is.Instancetype}
	}
	if r.Guest.VM.Spec.Preference != nil {
		changed.Preference = &PinChange{was.Preference, is.Preference}
	}
	if was.Presets != nil || is.Presets != nil {
		changed.Presets = &PinChange{strings.Join(was.Presets, ","), strings.Join(is.Presets, ",")}
	}
	if before, after := profileNames(was), profileNames(is); before+after != "" {
		changed.Profiles = &PinChange{before, after}
	}
	if is.Configuration != "" {
		changed.Configuration = &PinChange{was.Configuration, is.Configuration}
	}
	warnings, err := warnIfConfigurationDiffers(ctx, b, r.Inputs, was, is)
	return changed, warnings, err
}

// profileNames returns the revisions of profiles and of their bases, separated by commas.
func profileNames(pins v1alpha1.Pins) string {
	return strings.Join(slices.Concat(pins.Profiles, pins.Bases), ",")
}

// warnIfConfigurationDiffers returns a warning if the webhook pinned another configuration than the bench reads.
func warnIfConfigurationDiffers(ctx context.Context, b *workbench.Bench, in manifest.Inputs, was, is v1alpha1.Pins) ([]string, error) {
	now, warnings, err := b.Configuration(ctx, in)
	if err != nil || is.Configuration == was.Configuration {
		return warnings, err
	}
	object, err := config.Snapshot(now.Defaults)
	if err != nil {
		return warnings, err
	}
	snapshot, err := instancetype.Take(object)
	if err == nil && snapshot.Name != is.Configuration {
		warnings = append(warnings, "the webhook has another configuration than this command, "+
			"so the difference does not show its changes: name the configuration of the webhook with --config FILE")
	}
	return warnings, err
}
