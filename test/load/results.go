package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/test/load/creates"
)

// Results are all figures of a run.
type Results struct {
	Options options `json:"options"`
	Cores   int     `json:"cores"`
	Machine string  `json:"machine"`
	// Creates, Guests and Bursts are the runs of each variant, in the order in which they were made.
	Creates map[string][]Run `json:"creates,omitempty"`
	Guests  map[string][]Run `json:"guests,omitempty"`
	Bursts  map[string][]Run `json:"bursts,omitempty"`
	Memory  []MemoryAt       `json:"memory,omitempty"`
	Audit   *AuditAt         `json:"audit,omitempty"`
}

// Run is one run of one variant.
type Run struct {
	creates.Summary
	// Failures are the errors of creates that failed, each text once.
	Failures []string `json:"failures,omitempty"`
	// Behind is the time in seconds from the end of the last create until the controller has caught up; 0 without a controller.
	Behind float64 `json:"behind,omitempty"`
	// WebhookPeak and ControllerPeak are VmHWM of the largest process of each at the end, in bytes; 0 if the variant has none.
	WebhookPeak    int64 `json:"webhookPeak,omitempty"`
	ControllerPeak int64 `json:"controllerPeak,omitempty"`
}

func runOf(result creates.Result) Run {
	r := Run{Summary: result.Summary()}
	for _, failed := range result.Failures() {
		if text := failed.Err.Error(); !slices.Contains(r.Failures, text) {
			r.Failures = append(r.Failures, text)
		}
	}
	return r
}

func (r *Results) writeFile(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o600)
}

// median of one figure of several runs; 0 without runs.
func median(runs []Run, of func(Run) float64) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	switch n := len(all); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (all[n/2-1] + all[n/2]) / 2
	default:
		return all[n/2]
	}
}

// printTo prints each figure, and its ratio to the same figure of the peer.
func (r *Results) printTo(to io.Writer) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer table.Flush()
	for _, group := range []struct {
		title string
		runs  map[string][]Run
	}{{"creates", r.Creates}, {"VM to VMI", r.Guests}, {"at once", r.Bursts}} {
		peer := group.runs[peerVariant]
		for _, name := range variantNames() {
			runs := group.runs[name]
			if len(runs) == 0 {
				continue
			}
			perSecond, p99 := median(runs, func(r Run) float64 { return r.PerSecond }), median(runs, func(r Run) float64 { return r.P99 })
			fmt.Fprintf(table, "%s\t%s\t%d runs\t%.1f/s\tp50 %.0f ms\tp99 %.0f ms\tmax %.0f ms\tfailed %.0f\tbehind %.1f s", group.title, name, len(runs), perSecond,
				median(runs, func(r Run) float64 { return r.P50 }), p99, median(runs, func(r Run) float64 { return r.Max }),
				median(runs, func(r Run) float64 { return float64(r.Failed) }), median(runs, func(r Run) float64 { return r.Behind }))
			fmt.Fprintf(table, "\twebhook %.0f MB\tcontroller %.0f MB", median(runs, func(r Run) float64 { return float64(r.WebhookPeak) })/mega,
				median(runs, func(r Run) float64 { return float64(r.ControllerPeak) })/mega)
			if len(peer) > 0 {
				fmt.Fprintf(table, "\t%.2f of %s\tp99 %.2f of its", perSecond/median(peer, func(r Run) float64 { return r.PerSecond }), peerVariant,
					p99/median(peer, func(r Run) float64 { return r.P99 }))
			}
			fmt.Fprintln(table)
		}
	}
	for _, at := range r.Memory {
		at.printTo(table)
	}
	if r.Audit != nil {
		r.Audit.printTo(table)
	}
}

func noLogs() logr.Logger { return logr.Discard() }
