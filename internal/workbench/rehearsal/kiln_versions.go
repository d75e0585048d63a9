package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/audit"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Another version of Kiln is another program. Both programs render what the guests of one dump see, with 'render --stage frontend -o json'. The rehearsal
// compares the two outputs: nothing is repinned, because an upgrade of Kiln changes no pins.

// Renderings is the output of 'render --stage frontend -o json' for a dump. The output stays in its file, because it has megabytes for each thousand VMs.
type Renderings struct {
	// Version is the version of the program.
	Version string
	file    io.ReaderAt
	at      map[string]span
}

// span is a part of a file, in bytes.
type span struct{ from, to int64 }

// guestRendering is one item of the output: a Rendering or a Judgement.
type guestRendering struct {
	Object  string            `json:"object"`
	Domain  string            `json:"domain"`
	Allowed bool              `json:"allowed"`
	Causes  []workbench.Cause `json:"causes"`
}

// ReadRenderings finds the items of an output, which must stay open. The output is one item, or a list.
func ReadRenderings(output *os.File, version string) (*Renderings, error) {
	size, err := output.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	r := &Renderings{Version: version, file: output, at: map[string]span{}}
	in := json.NewDecoder(io.NewSectionReader(output, 0, size))
	if _, err := in.Token(); err != nil { // the brace
		return nil, fmt.Errorf("the output is not JSON: %w", err)
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, err
		}
		if key != "items" {
			var skipped json.RawMessage
			if err := in.Decode(&skipped); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := in.Token(); err != nil { // the bracket
			return nil, err
		}
		for in.More() {
			var item guestRendering
			from := in.InputOffset()
			if err := in.Decode(&item); err != nil {
				return nil, err
			}
			r.at[item.Object] = span{from, in.InputOffset()}
		}
		return r, nil
	}
	var only guestRendering
	if err := json.NewDecoder(io.NewSectionReader(output, 0, size)).Decode(&only); err != nil {
		return nil, err
	}
	r.at[only.Object] = span{0, size}
	return r, nil
}

// guestOf returns the item of an object; nil if the output has none.
func (r *Renderings) guestOf(name string) (*guestRendering, error) {
	at, found := r.at[name]
	if !found {
		return nil, nil
	}
	text := make([]byte, at.to-at.from)
	if _, err := r.file.ReadAt(text, at.from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for len(text) > 0 && text[0] != '{' { // the comma between two items
		text = text[1:]
	}
	var item guestRendering
	return &item, json.Unmarshal(text, &item)
}

// OfKilnVersions rehearses an upgrade of Kiln for the VMs of a dump: before and after are the outputs of both versions for the same dump. source is the value
// of --with.
func OfKilnVersions(ctx context.Context, b *workbench.Bench, dump *manifest.Dump, before, after *Renderings, source string, o Options) (*Rehearsal, error) {
	h, err := newRehearser(ctx, b, dump.Inputs, o)
	if err != nil {
		return nil, err
	}
	kiln := Change{Key: catalog.Key{Kind: "Kiln", Name: after.Version}, Action: Changed, From: before.Version, To: after.Version, Source: source}
	h.Changes = append(h.Changes, kiln)
	for _, object := range dump.Named {
		if object.Fault != nil {
			h.Unjudged = append(h.Unjudged, unreadable(object))
		}
	}
	for page := dump.NextGuests(manifest.PageSize); len(page) > 0; page = dump.NextGuests(manifest.PageSize) {
		for _, object := range page {
			if object.Fault != nil {
				h.Unjudged = append(h.Unjudged, unreadable(object))
			}
			if object.Fault != nil || object.GetKind() != v1.VirtualMachineGroupVersionKind.Kind || !h.isNew(object) {
				continue
			}
			result, err := h.compareVersions(ctx, before, after, object)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", object.Name(), err)
			}
			if len(result.Changes)+len(result.Refusals) > 0 {
				result.Causes = []Cause{{Key: kiln.Key, From: kiln.From, To: kiln.To}}
			}
			h.Computed++
			h.addResult(object, result)
		}
		if o.Progress != nil {
			o.Progress(len(h.VMs))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return h.finish()
}

// compareVersions compares what two versions of Kiln print of a VM. The VM is reviewed as a stored object first, because 'render' judges each VM as a new one,
// and replaces lost pins.
func (h *rehearser) compareVersions(ctx context.Context, before, after *Renderings, vm manifest.Object) (*Result, error) {
	stored, err := h.before.reviewOne(ctx, vm, true, nil)
	var without *unjudged
	switch {
	case errors.As(err, &without):
		return &Result{Verdict: Unjudged, Reason: without.reason}, nil
	case err != nil:
		return nil, err
	case len(stored.LostPins) > 0:
		return &Result{Verdict: Unjudged, Reason: lostPins(stored)}, nil
	case !stored.Verdict.Allowed():
		return &Result{Verdict: AlreadyRefused, Before: refusalsOf(stored, nil, audit.OnStart)}, nil
	case stored.Unknown:
		return &Result{Verdict: Unjudged, Reason: cannotBoot(stored)}, nil
	}
	return compareRenderings(before, after, vm.Name())
}

// compareRenderings compares what two versions of Kiln print of a VM.
func compareRenderings(before, after *Renderings, name string) (*Result, error) {
	was, err := before.guestOf(name)
	if err != nil {
		return nil, err
	}
	is, err := after.guestOf(name)
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		return &Result{Verdict: Unjudged, Reason: "Kiln " + before.Version + " renders no guest of it"}, nil
	case was.Domain == "": // a stored VM that was admitted before a rule or a policy
		reason := "a new VM of this content would be refused, so Kiln " + before.Version + " renders no guest of it"
		return &Result{Verdict: Unjudged, Reason: reason, Before: was.refusals()}, nil
	case is == nil:
		return &Result{Verdict: Unjudged, Reason: "Kiln " + after.Version + " renders no guest of it"}, nil
	case is.Domain == "":
		return &Result{Verdict: Refused, Refusals: is.refusals()}, nil
	case was.Domain == is.Domain:
		return &Result{Verdict: Same}, nil
	}
	var old, next libvirtxml.Domain
	if err := old.Unmarshal(was.Domain); err != nil {
		return nil, err
	}
	if err := next.Unmarshal(is.Domain); err != nil {
		return nil, err
	}
	result := &Result{Verdict: Same, Changes: abi.Compare(&old, &next)}
	switch {
	case len(result.Changes) == 0:
		result.Changes = nil
	case record.Judge(result.Changes) == record.Breaks:
		result.Verdict = Breaks
	case record.Judge(result.Changes) == record.NeedsRestart:
		result.Verdict = Restart
	default:
		result.Verdict = Live
	}
	return result, nil
}

// refusals returns why a version of Kiln renders no guest: it would refuse to create the VM.
func (g *guestRendering) refusals() (all []Refusal) {
	for _, cause := range g.Causes {
		if len(all) == mostRefusals {
			break
		}
		all = append(all, Refusal{Rule: cause.Type, Field: cause.Field, Message: cause.Message, Refuses: []string{audit.OnCreate}})
	}
	return all
}
