package guestdiff

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// This file compares one VM or VMI with its last boot: the changes that wait for a restart, and the changes that 'kilnvm.io/hardware: latest' would make.

// lastBoot returns the name of the record of a guest, for messages.
func lastBoot(r workbench.Reviewed) string {
	return fmt.Sprintf("GuestHardware %s/%s", r.Guest.Explicit.Namespace, r.Guest.Explicit.Name)
}

// nextBoot returns the name of the object that a VM or VMI boots next, for messages.
func nextBoot(r workbench.Reviewed) string {
	if r.Guest.VM != nil {
		return "the template of " + r.Name()
	}
	return r.Name()
}

// CompareLatest compares the recorded hardware with the hardware that the annotation kilnvm.io/hardware: latest would give. It fails without a record.
func CompareLatest(ctx context.Context, b *workbench.Bench, of Side) (Difference, error) {
	if err := of.requireRecord(); err != nil {
		return Difference{}, err
	}
	before, guest := of, *of.Guest
	guest.Recorded, before.Guest = guest.Booted, &guest
	of.Afresh = true
	d, err := Compare(ctx, b, before, of)
	d.Compared = fmt.Sprintf("%s, the record of the last boot, with what '%s: %s' would boot",
		lastBoot(of.Reviewed), v1alpha1.AnnotationHardware, v1alpha1.HardwareLatest)
	return d, err
}

// requireRecord returns an error if the guest has no record of its hardware.
func (s Side) requireRecord() error {
	switch {
	case s.Guest.Unreadable != nil:
		return fmt.Errorf("which hardware the guest had before is not known: %w", s.Guest.Unreadable)
	case s.Guest.Booted == nil:
		return fmt.Errorf("%s has no recorded hardware: give what to compare it with, or --host for two hosts", s.Name())
	}
	return nil
}

// CompareRunning compares the running VMI of a VM with what the VM boots next. host is a file with the capabilities of a host, or empty.
func CompareRunning(ctx context.Context, b *workbench.Bench, of VMWithVMI, host string) (Difference, error) {
	runs, next := *of.VMI.Guest, *of.VM.Guest
	runs.Recorded = next.Booted
	next.Explicit = next.Explicit.DeepCopy()
	if next.Explicit.Spec.StartStrategy == nil { // a request to start may have set it
		next.Explicit.Spec.StartStrategy = runs.Explicit.Spec.StartStrategy
	}
	before, after := Side{Reviewed: *of.VMI, Host: host}, Side{Reviewed: of.VM, Host: host}
	before.Guest, after.Guest = &runs, &next
	d, err := compareSides(ctx, b, &before, &after)
	d.Compared = fmt.Sprintf("%s, which runs, with %s", of.VMI.Name(), nextBoot(of.VM))
	if err != nil {
		return d, err
	}
	// The VMI has UUID, serial number and MACs, which its controller gave it, and the template has not.
	for _, side := range []*Side{&before, &after} {
		if side.Guest.Document, err = json.Marshal(side.identified); err != nil {
			return d, err
		}
	}
	return d, d.addTextDiffs(before, after)
}

// Texts of Difference.Unknown. A record contains only the digest of some settings.
const (
	changeUnrecorded = "the guest will see other hardware in something that a record does not contain: memory, vCPUs, the CPU model or settings of devices"
	changeUnknown    = "whether memory, vCPUs, the CPU model and settings of devices change, too, is not known: a record does not contain them"
)

// CompareRecord compares the record of a guest that does not run with what the guest boots next. It fails without a record.
func CompareRecord(ctx context.Context, b *workbench.Bench, of Side) (Difference, error) {
	if err := of.requireRecord(); err != nil {
		return Difference{}, err
	}
	booted := of.Guest.Booted
	of.machine = booted.Machine
	d := Difference{Before: lastBoot(of.Reviewed), BeforeDigest: booted.Digest, After: of.label()}
	d.Compared = fmt.Sprintf("%s, the record of the last boot, with %s", lastBoot(of.Reviewed), nextBoot(of.Reviewed))
	var err error
	if d.Notes, err = renderSide(ctx, b, &of, of.Guest.Recorded); err != nil {
		return d, err
	}
	next := of.rendered.Record
	d.AfterDigest, d.Changes = next.Digest, append([]record.Change{}, record.Compare(*booted, next)...)
	d.Verdict = record.Judge(d.Changes)
	if next.Digest == booted.Digest || bootedPaused(ctx, b, of) {
		return d, nil
	}
	d.Unknown = changeUnknown
	if len(d.Changes) == 0 {
		d.Unknown, d.Verdict = changeUnrecorded, record.NeedsRestart
	}
	return d, nil
}

// bootedPaused reports whether a guest differs from its record only because it was started paused, which a request to start may ask for.
func bootedPaused(ctx context.Context, b *workbench.Bench, of Side) bool {
	guest, paused := *of.Guest, v1.StartStrategyPaused
	guest.Explicit = guest.Explicit.DeepCopy()
	guest.Explicit.Spec.StartStrategy, of.Guest = &paused, &guest
	_, err := renderSide(ctx, b, &of, guest.Recorded)
	return err == nil && of.rendered.Record.Digest == of.Guest.Booted.Digest
}
