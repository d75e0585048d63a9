package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestHelpFitsOneScreen: what a command does, an example, its own flags, and nothing of kubectl's.
func TestHelpFitsOneScreen(t *testing.T) {
	t.Parallel()
	for _, cmd := range Command(genericclioptions.IOStreams{}).Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		got := call(t, "", cmd.Name(), "--help")
		if lines := strings.Count(got.out, "\n"); got.err != nil || lines > 30 {
			t.Errorf("%s: help has %d lines, want at most 30: %v\n%s", cmd.Name(), lines, got.err, got.out)
		}
		if !strings.Contains(got.out, "kubectl kiln "+cmd.Name()) || strings.Contains(got.out, "--as-group") {
			t.Errorf("%s: want usage as kubectl users type it, without the flags of the connection:\n%s", cmd.Name(), got.out)
		}
		if cmd.Name() != "options" && !strings.Contains(cmd.Example, "  kubectl kiln "+cmd.Name()+" ") {
			t.Errorf("%s has no example", cmd.Name())
		}
	}
	if got := call(t, "", "help"); !strings.Contains(got.out, "\n  completion ") || !strings.Contains(got.out, "\n  version ") {
		t.Errorf("the commands have no completion or version: %v\n%s", got.err, got.out)
	}
	if got := call(t, "", "completion", "bash"); got.err != nil || !strings.Contains(got.out, "complete -o default -F __start_kubectl-kiln kubectl-kiln") {
		t.Errorf("completion of bash: %v\n%.200s", got.err, got.out)
	}
	if got := call(t, "", "options"); !strings.Contains(got.out, "--as-group") || !strings.Contains(got.out, "--namespace") {
		t.Errorf("options: want kubectl's flags:\n%s", got.out)
	}
}

func TestCompletionOfFormats(t *testing.T) {
	t.Parallel()
	if got := call(t, "", "__complete", "validate", "-o", ""); got.out != "text\njson\nyaml\n:4\n" {
		t.Errorf("formats and no file names (directive 4), got %q", got.out)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	_, file := write(t, vm)
	folder, sizes := write(t, size)
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why  string
		args []string
		want string
	}{
		{"neither a file nor a name", []string{"expand"}, "name a file with -f, or a VM of the cluster as vm/NAME"},
		{"files and names at once", []string{"expand", "-f", file, "vm/web"}, "not both"},
		{"a file that is not there", []string{"expand", "-f", file + ".none"}, "does not exist"},
		{"an empty file", []string{"validate", "-f", empty}, "no object of a kind that Kiln serves"},
		{"an output that the command does not have", []string{"validate", "-f", file, "-o", "xml"}, "--output 'xml' is not supported, use text, json or yaml"},
		{"no VM among the objects", []string{"expand", "-f", sizes}, "no VirtualMachine or VirtualMachineInstance in " + sizes},
		{"a folder without VMs", []string{"render", "-f", folder}, "no VirtualMachine or VirtualMachineInstance in " + folder},
		{"standard input by its name", []string{"render", "-f", "-"}, manifest.StandardInput},
		{"a flag that is not there", []string{"expand", "--fil", file}, "unknown flag: --fil, see 'kubectl kiln expand --help'"},
		{"a command with a typing error", []string{"exand"}, "unknown command 'exand' of 'kubectl kiln': did you mean 'kubectl kiln expand'?"},
		{"a command that is like none", []string{"fooo"}, "unknown command 'fooo' of 'kubectl kiln', see 'kubectl kiln --help'"},
		{"a command below another with a typing error", []string{"catalog", "usge"}, "did you mean 'kubectl kiln catalog usage'?"},
	} {
		got := call(t, size, test.args...)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), test.want) || got.out != "" {
			t.Errorf("%s: want exit status 2 and '%s', got %v\n%s", test.why, test.want, got.err, got.out)
		}
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{{nil, 0}, {cmdutil.ErrRejected, 1}, {errors.Join(errors.New("vm"), cmdutil.ErrRejected), 1}, {os.ErrNotExist, 2},
		{cmdutil.ErrNeedsRestart, 3}, {fmt.Errorf("vm: %w", cmdutil.ErrBreaks), 4}} {
		if got := cmdutil.ExitStatus(test.err); got != test.want || cmdutil.Answered(test.err) != (got != 0 && got != 2) {
			t.Errorf("%v: exit status %d, want %d; answered %v", test.err, got, test.want, cmdutil.Answered(test.err))
		}
	}
}
