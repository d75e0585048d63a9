// Command plot draws the results of test/load as SVG, and writes their tables into docs/project/performance.md. It is a module of its own, because nothing else
// needs a library for plots.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Results are the fields of test/load's results that the page shows.
type Results struct {
	Options struct {
		Rounds, VMs, Clients, Warm, Guests, Burst int
		Memory                                    struct{ VMs, Namespaces, Every int }
	}
	Cores   int
	Machine string
	Creates map[string][]Run
	Guests  map[string][]Run
	Bursts  map[string][]Run
	Memory  []MemoryAt
	Reviews Benchmarks `json:"-"`
}

// Run is one run of a variant. Latencies are in milliseconds.
type Run struct {
	Created, Failed          int
	PerSecond, P50, P99, Max float64
	Behind                   float64
	// Bytes.
	WebhookPeak, ControllerPeak int64
}

// MemoryAt is the memory at one size, in bytes.
type MemoryAt struct {
	VMs, VMIs           int
	Admitting           []int64
	Webhook, Controller Process
}

// Process is one process that was started with all objects there.
type Process struct {
	Started, Peak, Resident int64
	Ready, First, All       float64
	Requests                map[string]int
}

func main() {
	in := flag.String("in", "../../../bin", "folder of load.json, the results of test/load, and of bench.txt, the output of 'make bench'")
	page := flag.String("page", "../../../docs/project/performance.md", "page whose generated parts are written")
	plots := flag.String("plots", "../../../docs/project/performance", "folder of the plots")
	flag.Parse()
	if err := writePage(*in, *page, *plots); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func writePage(in, page, plots string) error {
	var results Results
	switch raw, err := os.ReadFile(filepath.Join(in, "load.json")); {
	case errors.Is(err, fs.ErrNotExist): // only 'make bench' was run
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(raw, &results); err != nil {
			return fmt.Errorf("load.json: %w", err)
		}
	}
	var err error
	if results.Reviews, err = readBenchmarks(filepath.Join(in, "bench.txt")); err != nil {
		return err
	}
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	for name, draw := range map[string]func(Results, string) error{
		"creates.svg": drawCreates, "latency.svg": drawLatency, "memory.svg": drawMemory, "reviews.svg": drawReviews,
	} {
		if err := draw(results, filepath.Join(plots, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	filled, err := fillParts(string(text), measuredParts(results))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(filled), 0o644) //nolint:gosec // a page of the repository
}
