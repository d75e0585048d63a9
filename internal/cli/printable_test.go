package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/internal/workbench/repin"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	v1 "kubevirt.io/api/core/v1"
)

// hostile clears a terminal's screen, begins a line and a column, and turns the direction of writing.
const hostile = "a\x1b[2J\r\nfake\tb\u202e\u009bc"

// TestNothingOfAStrangerReachesTheTerminal: every text of a cluster is printed on its line and in its column, without control and format characters.
func TestNothingOfAStrangerReachesTheTerminal(t *testing.T) {
	t.Parallel()
	named := manifest.Object{Unstructured: &unstructured.Unstructured{}}
	named.SetKind("VirtualMachine")
	named.SetName(hostile)
	mistakes := field.ErrorList{field.Invalid(field.NewPath("spec"), hostile, hostile)}
	refused := workbench.Reviewed{Object: named, Verdict: admit.Verdict{Errors: mistakes, Warnings: []string{hostile}}}
	used := revision.Usage{Namespace: hostile, Revision: hostile, Kind: hostile, Name: hostile, State: revision.Missing, VMs: []string{hostile}}
	for name, test := range map[string]struct {
		print func(cmdutil.Inputs)
		lines int
	}{
		"a rejection":             {func(o cmdutil.Inputs) { _ = o.PrintRejectedObject(refused, hostile) }, 3},
		"a VM that is incomplete": {func(o cmdutil.Inputs) { _ = o.PrintIncomplete(refused) }, 2},
		"a warning of the run":    {func(o cmdutil.Inputs) { o.Warn(hostile) }, 1},
		"a fault of an object":    {func(o cmdutil.Inputs) { _ = o.PrintUnanswered(errors.New(cmdutil.Printable(hostile))) }, 1},
		"repin, refused": {func(o cmdutil.Inputs) {
			_ = (&repinRun{o}).refusedByCluster(named, apierrors.NewInvalid(v1.VirtualMachineGroupVersionKind.GroupKind(), "a", mistakes))
		}, 1},
		"repin":     {func(o cmdutil.Inputs) { _ = (&repinRun{o}).printRepinned(repinned()) }, 4},
		"revisions": {func(o cmdutil.Inputs) { _ = (&revisionsRun{o}).printUsages([]revision.Usage{used}, true) }, 2},
	} {
		streams, _, out, errOut := genericclioptions.NewTestIOStreams()
		o := cmdutil.NewInputs(&cmdutil.Session{IOStreams: streams})
		o.Output = "text"
		test.print(o)
		text := out.String() + errOut.String()
		if strings.ContainsAny(text, "\x1b\r\t\u202e\u009b") || strings.Count(text, "\n") != test.lines || !strings.Contains(text, "fake") {
			t.Errorf("%s: %d lines, want %d: %q", name, strings.Count(text, "\n"), test.lines, text)
		}
	}
}

// repinned is a VM with a pin and a change that are a tenant's text.
func repinned() repin.Repinned {
	return repin.Repinned{Object: hostile, Presets: &repin.PinChange{Before: hostile, After: "b"},
		Difference: guestdiff.Difference{Verdict: record.Compatible, Changes: []record.Change{{Text: hostile}}}}
}

// TestPrintFault: errors that are joined stay lines of their own.
func TestPrintFault(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmdutil.PrintFault(&out, errors.Join(errors.New("a\x1b[2J"), errors.New("\tb\u202e")))
	if got, want := out.String(), "error: a?[2J\n\tb?\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
