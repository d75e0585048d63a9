// Command load measures Kiln beside its peers on this machine: creates of VMs a second and their latency, and the memory of webhook and controller.
// The figures go to a JSON file, of which test/load/plot makes docs/project/performance.md. 'make load' runs both.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags. Their defaults are the sizes of docs/project/performance.md.
type options struct {
	Root string `json:"-"`
	Out  string `json:"-"`
	// Only names the measurements: creates, guests, burst, memory, audit.
	Only string `json:"-"`
	// Variants are the peers, each as often as Rounds says.
	Variants string `json:"-"`
	Rounds   int    `json:"rounds"`
	VMs      int    `json:"vms"`
	Clients  int    `json:"clients"`
	Warm     int    `json:"warm"`
	// Settle is the time that a new control plane gets before it is measured.
	Settle time.Duration `json:"settle"`
	Guests int           `json:"guests"`
	Burst  int           `json:"burst"`
	Memory memorySizes   `json:"memory"`
	Audit  auditSizes    `json:"audit"`
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "noop":
			exitWith(serveNoop(os.Args[2:]))
		case "controller":
			exitWith(serveController(os.Args[2:]))
		}
	}
	var o options
	flag.StringVar(&o.Root, "root", ".", "the repository")
	flag.StringVar(&o.Out, "out", "bin/load.json", "file of the results; measurements that are not made now stay in it as they are")
	flag.StringVar(&o.Only, "only", "creates,guests,burst,memory,audit", "what is measured")
	flag.StringVar(&o.Variants, "variants", strings.Join(variantNames(), ","), "which variants are compared")
	flag.IntVar(&o.Rounds, "rounds", 5, "runs of each variant; the median counts")
	flag.IntVar(&o.VMs, "vms", 1500, "Halted VMs of a run")
	flag.IntVar(&o.Clients, "clients", 8, "clients that create them, each with one open request")
	flag.IntVar(&o.Warm, "warm", 300, "creates before a run that are not counted")
	flag.DurationVar(&o.Settle, "settle", 15*time.Second, "time between the start of a control plane and its first create")
	flag.IntVar(&o.Guests, "guests", 300, "VMs with runStrategy Always of a run")
	flag.IntVar(&o.Burst, "burst", 500, "VMs that are created at once")
	flag.IntVar(&o.Memory.VMs, "memory-vms", 10000, "VMs while memory is measured")
	flag.IntVar(&o.Memory.Namespaces, "memory-namespaces", 100, "their namespaces")
	flag.IntVar(&o.Memory.Every, "memory-every", 5, "every Nth of them has runStrategy Always, and so a VMI")
	flag.IntVar(&o.Audit.VMs, "audit-vms", 20000, "VMs on which policies are evaluated")
	flag.IntVar(&o.Audit.Namespaces, "audit-namespaces", 20, "their namespaces")
	flag.IntVar(&o.Audit.Policies, "audit-policies", 10, "the policies")
	flag.Parse()
	ctrl.SetLogger(noLogs())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	exitWith(measureAll(ctx, o))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measureAll makes the measurements, and writes the file after each of them.
func measureAll(ctx context.Context, o options) error {
	results, err := readResults(o.Out)
	if err != nil {
		return err
	}
	results.Options, results.Cores, results.Machine = o, runtime.NumCPU(), processorName()
	for _, one := range []struct {
		name string
		do   func(context.Context, options, *Results) error
	}{{"creates", measureCreates}, {"guests", measureGuests}, {"burst", measureBurst}, {"memory", measureMemory}, {"audit", measureAudit}} {
		if !strings.Contains(","+o.Only+",", ","+one.name+",") {
			continue
		}
		if err := one.do(ctx, o, results); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		if err := results.writeFile(o.Out); err != nil {
			return err
		}
	}
	results.printTo(os.Stdout)
	return nil
}

func readResults(path string) (*Results, error) {
	found := &Results{}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	return found, json.Unmarshal(raw, found)
}

// processorName returns the name of the processor, as Linux has it.
func processorName() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(raw)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
