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
	o.Unshared = true // an item of the output is of one VM
	h, err := newRehearser(ctx, b, dump.Inputs, o)
	if err != nil {
		return nil, err
	}
	kiln := Change{Key: catalog.Key{Kind: "Kiln", Name: after.Version}, Action: Changed, From: before.Version, To: after.Version, Source: source}
	h.Changes = append(h.Changes, kiln)
	h.compare = func(ctx context.Context, vm manifest.Object) (*Result, error) {
		result, err := h.compareVersions(ctx, before, after, vm)
		if err == nil && len(result.Changes)+len(result.Refusals) > 0 {
			result.Causes = []Cause{{Key: kiln.Key, From: kiln.From, To: kiln.To}}
		}
		return result, err
	}
	return h.judgeDump(ctx, dump)
}

// compareVersions compares what two versions of Kiln print of a VM. The VM is reviewed as a stored object first, because 'render' judges each VM as a new one,
// and replaces lost pins.
func (h *rehearser) compareVersions(ctx context.Context, before, after *Renderings, vm manifest.Object) (*Result, error) {
	stored, err := h.before.reviewOne(ctx, vm, true, nil)
	switch {
	case err != nil:
		return nil, err
	case len(stored.LostPins) > 0:
		return nil, &unjudged{lostPins(stored)}
	case !stored.Verdict.Allowed():
		return &Result{Verdict: AlreadyRefused, Before: refusalsOf(stored, nil, audit.OnStart)}, nil
	case stored.Guest != nil && stored.Guest.Unreadable != nil:
		return nil, &unjudged{stored.Guest.Unreadable.Error()}
	case stored.Unknown:
		return nil, &unjudged{cannotBoot(stored)}
	}
	was, err := before.guestOf(vm.Name())
	if err != nil {
		return nil, err
	}
	is, err := after.guestOf(vm.Name())
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		return nil, &unjudged{"Kiln " + before.Version + " renders no guest of it"}
	case was.Domain == "": // a stored VM that was admitted before a rule or a policy
		return nil, &unjudged{"a new VM of this content would be refused, so Kiln " + before.Version + " renders no guest of it"}
	case is == nil:
		return nil, &unjudged{"Kiln " + after.Version + " renders no guest of it"}
	case is.Domain == "":
		return &Result{Verdict: Refused, Refusals: is.refusals()}, nil
	case was.Domain == is.Domain:
		return &Result{Verdict: Same}, nil
	}
	var old, next libvirtxml.Domain
	if err := errors.Join(old.Unmarshal(was.Domain), next.Unmarshal(is.Domain)); err != nil {
		return nil, err
	}
	changes := abi.Compare(&old, &next)
	return &Result{Verdict: verdictOn(record.Judge(changes), changes), Changes: changes}, nil
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
