// Command faults creates VMs at a steady rate, breaks something meanwhile, and prints what users felt, and when all was well again: one row for each
// fault. It ends with status 1 when a create failed during a fault that may fail none, or when a VM was lost or got stuck during any.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	only *regexp.Regexp
	rate float64
	calm time.Duration
	old  string
	// beside is 'kiln' for Kiln beside KubeVirt, 'alone' for KubeVirt alone, and empty for Kiln alone.
	beside string
}

func main() {
	o := options{}
	only := flag.String("only", "", "regular expression: faults whose names match; empty for all")
	flag.Float64Var(&o.rate, "rate", 30, "creates a second")
	flag.DurationVar(&o.calm, "calm", 4*time.Second, "time of creates before the fault, and after it")
	flag.StringVar(&o.old, "old", "", "commit whose programs run beside this tree's programs; empty for no faults of this kind")
	flag.StringVar(&o.beside, "kubevirt", "", "slow webhooks in a cluster with KubeVirt: 'kiln' for Kiln beside it, 'alone' for KubeVirt alone; empty for "+
		"all faults of Kiln alone")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err == nil {
		// The death signal of what is started here is sent when the thread ends that started it.
		runtime.LockOSThread()
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		if o.beside != "" {
			err = tryBeside(ctx, o)
		} else {
			err = tryFaults(ctx, o)
		}
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// tryFaults tries the faults one after another on one cluster.
func tryFaults(ctx context.Context, o options) error {
	if len(chosenFaults(o)) == 0 {
		return nil
	}
	s, err := startStage(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println("fault | created | failed | slowest | well after | lost | stuck | wrong pins | restless | orphans")
	fmt.Println("---|---|---|---|---|---|---|---|---|---")
	bad := 0
	for i, f := range chosenFaults(o) {
		select {
		case <-time.After(time.Until(s.began.Add(f.age))):
		case <-ctx.Done():
		}
		t, err := s.tryFault(ctx, i, f)
		if err != nil {
			return s.end(fmt.Errorf("%s: %w", f.name, err))
		}
		t.printRow(f)
		if t.isBad(f) {
			bad++
		}
	}
	if bad > 0 {
		return s.end(fmt.Errorf("%d faults did more than they may", bad))
	}
	return s.end(nil)
}

// chosenFaults returns the faults of the flags.
func chosenFaults(o options) (some []fault) {
	for _, f := range faults {
		if o.only.MatchString(f.name) && (!f.old || o.old != "") {
			some = append(some, f)
		}
	}
	return some
}
