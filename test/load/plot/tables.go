package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// variant is a peer, as test/load names it, and as a reader knows it.
type variant struct{ name, title, short string }

var variants = []variant{
	{"bare", "the API server alone", "API server"},
	{"noop", "a pair of webhooks that do nothing", "no-op webhooks"},
	{peer, "the peer: that pair, and a controller that writes one status", "peer"},
	{"annotations", "that pair, which adds two annotations", "no-op, patch"},
	{"admission", "Kiln without its controller", "Kiln, no controller"},
	{"kiln", "**Kiln as installed**", "Kiln"},
	{"fail-open", "Kiln with the overlay `fail-open`", "Kiln, fail-open"},
}

// peer is the variant that the others are compared with.
const peer = "peer"

// fillParts replaces what stands between '<!-- NAME -->' and '<!-- end of NAME -->' for each part. Each must be there once.
func fillParts(page string, parts map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		before, rest, found := strings.Cut(page, "<!-- "+name+" -->\n")
		_, after, ended := strings.Cut(rest, "<!-- end of "+name+" -->")
		if !found || !ended {
			return "", fmt.Errorf("no part '%s'", name)
		}
		page = before + "<!-- " + name + " -->\n" + parts[name] + "<!-- end of " + name + " -->" + after
	}
	return page, nil
}

// measuredParts returns the parts of the page that were measured. The others stay as they are.
func measuredParts(r Results) map[string]string {
	all := map[string]string{
		"machine": fmt.Sprintf("Measured on %d cores of %s.\n", r.Cores, r.Machine),
		"creates": speedTable(r.Creates, fmt.Sprintf("%d VMs, %d clients, median of %d runs", r.Options.VMs, r.Options.Clients, mostRuns(r.Creates))) +
			createsPlots(r),
		"guests": speedTable(r.Guests, fmt.Sprintf("%d VMs, %d clients, median of %d runs", r.Options.Guests, r.Options.Clients, mostRuns(r.Guests))),
		"burst":  speedTable(r.Bursts, fmt.Sprintf("%d VMs at once, median of %d runs", r.Options.Burst, mostRuns(r.Bursts))),
		"memory": memoryTable(r), "restart": restartTable(r), "reviews": reviewTable(r.Reviews),
	}
	maps.DeleteFunc(all, func(name, text string) bool {
		return strings.HasPrefix(text, unmeasured) || name == "machine" && r.Cores == 0
	})
	return all
}

// mostRuns returns the number of runs of the variant that has most of them.
func mostRuns(of map[string][]Run) (most int) {
	for _, runs := range of {
		most = max(most, len(runs))
	}
	return most
}

func medianOfRuns(runs []Run, of func(Run) float64) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, of(r))
	}
	return medianOfValues(all)
}

// medianOfValues returns the median of values, 0 without values.
func medianOfValues(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	if len(values) == 0 {
		return 0
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func perSecond(r Run) float64     { return r.PerSecond }
func p50(r Run) float64           { return r.P50 }
func p99(r Run) float64           { return r.P99 }
func mostLatency(r Run) float64   { return r.Max }
func secondsBehind(r Run) float64 { return r.Behind }

func webhookPeak(r Run) float64    { return float64(r.WebhookPeak) }
func controllerPeak(r Run) float64 { return float64(r.ControllerPeak) }

// megabytes returns a dash for a variant without the process.
func megabytes(bytes float64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", bytes/1e6)
}

// speedTable returns a table of variants: medians, and their ratios to the peer's medians.
func speedTable(runs map[string][]Run, title string) string {
	if len(runs) == 0 {
		return unmeasured
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | per second | of the peer | p50 ms | p99 ms | of the peer | most ms | failed | behind s | webhook MB | controller MB |\n"+
		"|---|---|---|---|---|---|---|---|---|---|---|\n", title)
	for _, v := range variants {
		all := runs[v.name]
		if len(all) == 0 {
			continue
		}
		failed := 0
		for _, r := range all {
			failed += r.Failed
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %.0f | %.0f | %s | %.0f | %d | %.1f | %s | %s |\n", v.title, medianOfRuns(all, perSecond),
			ratioToPeer(all, runs[peer], perSecond), medianOfRuns(all, p50), medianOfRuns(all, p99), ratioToPeer(all, runs[peer], p99),
			medianOfRuns(all, mostLatency), failed, medianOfRuns(all, secondsBehind),
			megabytes(medianOfRuns(all, webhookPeak)), megabytes(medianOfRuns(all, controllerPeak)))
	}
	return b.String()
}

func ratioToPeer(runs, peers []Run, of func(Run) float64) string {
	if len(peers) == 0 || medianOfRuns(peers, of) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", medianOfRuns(runs, of)/medianOfRuns(peers, of))
}

func inMegabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// unmeasured stands where a measurement has not been made.
const unmeasured = "Not measured in this run.\n"

func createsPlots(r Results) string {
	if len(r.Creates) == 0 {
		return ""
	}
	return "\n![Creates a second of each variant, the median as a bar and each run as a point](performance/creates.svg)\n\n" +
		"![Median and 99th percentile of the latency of each variant](performance/latency.svg)\n"
}

// memoryTable returns a table of peaks, and the bytes for each VM by the difference of two sizes.
func memoryTable(r Results) string {
	if len(r.Memory) == 0 {
		return unmeasured
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| VMs, VMIs | webhook that admitted them MB | webhook after start and relists MB | controller after start MB | "+
		"after relists MB | at rest MB |\n|---|---|---|---|---|---|\n")
	for _, at := range r.Memory {
		fmt.Fprintf(&b, "| %d, %d | %.0f | %.0f | %.0f | %.0f | %.0f |\n", at.VMs, at.VMIs,
			inMegabytes(slices.Max(append(at.Admitting, 0))), inMegabytes(at.Webhook.Peak), inMegabytes(at.Controller.Started),
			inMegabytes(at.Controller.Peak), inMegabytes(at.Controller.Resident))
	}
	const plot = "\n![Peaks of webhook and controller at two sizes, beside their bounds](performance/memory.svg)\n"
	if len(r.Memory) < 2 {
		return b.String() + plot
	}
	small, large := r.Memory[0], r.Memory[len(r.Memory)-1]
	vms := large.VMs - small.VMs
	each := func(of func(MemoryAt) int64) float64 { return float64(of(large)-of(small)) / float64(vms) }
	controller := each(func(at MemoryAt) int64 { return at.Controller.Peak })
	webhook := each(func(at MemoryAt) int64 { return at.Webhook.Peak })
	fmt.Fprintf(&b, "\nThe difference of the two sizes is %.1f kB of the controller's peak for each VM, its share of a VMI included, "+
		"and %.1f kB of the webhook's.\n"+
		"At 100,000 VMs the controller's peak would be %.0f MB by this.\n",
		controller/1e3, webhook/1e3, inMegabytes(large.Controller.Peak)+controller*float64(100000-large.VMs)/1e6)
	return b.String() + plot
}

// restartTable returns a table of what a starting controller does at each size.
func restartTable(r Results) string {
	if len(r.Memory) == 0 {
		return unmeasured
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| controller started at | ready s | first reconcile s | all reconciled s | requests |\n|---|---|---|---|---|\n")
	for _, at := range r.Memory {
		total := 0
		for _, n := range at.Controller.Requests {
			total += n
		}
		fmt.Fprintf(&b, "| %d VMs | %.1f | %.1f | %.1f | %d |\n", at.VMs, at.Controller.Ready, at.Controller.First, at.Controller.All, total)
	}
	return b.String()
}
