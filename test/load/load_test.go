package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/load/creates"
	v1 "kubevirt.io/api/core/v1"
)

// kind describes the VMs of these tests.
var kind = creates.Kind{Namespace: "default", Instancetype: "any", Strategy: v1.RunStrategyHalted}

// started is a running variant, which ends with the test.
func started(t *testing.T, name string) *bench {
	t.Helper()
	found, err := chosenVariants(options{Variants: name})
	if err != nil {
		t.Fatal(err)
	}
	b, err := found[0].startBench(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestFailingWebhook: creates with the webhooks that do nothing succeed. Without their process each fails, and is counted.
func TestFailingWebhook(t *testing.T) {
	t.Parallel()
	b := started(t, "noop")
	run := func(name string) Run {
		result, err := creates.Run(t.Context(), b.config, creates.Plan{Clients: 4, Total: 15, VM: func(i int) *v1.VirtualMachine {
			return kind.VM(fmt.Sprintf("%s-%d", name, i))
		}})
		if err != nil {
			t.Fatal(err)
		}
		return runOf(result)
	}
	if got := run("up"); got.Created != 15 || got.Failed != 0 {
		t.Errorf("%+v, want 15 created", got)
	}
	if err := b.webhooks.stop(); err != nil {
		t.Fatal(err)
	}
	if got := run("down"); got.Created != 0 || got.Failed != 15 || !strings.Contains(strings.Join(got.Failures, " "), "failed calling webhook") {
		t.Errorf("%+v, want 15 failures of the webhook", got)
	}
}

// TestAnnotations: webhooks that add annotations do, as Kiln's do, and allow the VM.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	b := started(t, "annotations")
	if _, err := creates.Run(t.Context(), b.config, creates.Plan{Total: 1, VM: func(int) *v1.VirtualMachine { return kind.VM("annotated") }}); err != nil {
		t.Fatal(err)
	}
	got, _, err := b.Kubectl(t.Context(), "", "get", "vm", "annotated", "-o", "jsonpath={.metadata.annotations}")
	if err != nil || !strings.Contains(got, v1alpha1.AnnotationIdentity) || !strings.Contains(got, v1alpha1.AnnotationPins) {
		t.Errorf("annotations %s (%v)", got, err)
	}
}

// TestPeer: the controller of the peer writes a status for each VM, and its processes are those whose memory is measured.
func TestPeer(t *testing.T) {
	t.Parallel()
	b := started(t, peerVariant)
	result, err := creates.Run(t.Context(), b.config, creates.Plan{Total: 5, VM: func(i int) *v1.VirtualMachine { return kind.VM(fmt.Sprint("reported-", i)) }})
	if err != nil || len(result.Failures()) > 0 {
		t.Fatal(result.Failures(), err)
	}
	if took, err := b.workedOff(t.Context(), 5); err != nil || took > time.Minute {
		t.Errorf("behind by %s: %v", took, err)
	}
	if webhook, controller := b.peakMemory(); webhook < 1<<20 || controller < 1<<20 {
		t.Errorf("memory of the webhooks %d, of the controller %d", webhook, controller)
	}
}

// TestMedian: of an even number of runs it is the mean of the two in the middle.
func TestMedian(t *testing.T) {
	t.Parallel()
	var runs []Run
	for _, p99 := range []float64{9, 5, 9} {
		runs = append(runs, Run{Summary: creates.Summary{P99: p99}})
	}
	if got := median(runs, func(r Run) float64 { return r.P99 }); got != 9 {
		t.Errorf("median %v, want 9", got)
	}
	if got := median(runs[:2], func(r Run) float64 { return r.P99 }); got != 7 {
		t.Errorf("median %v, want 7", got)
	}
}
