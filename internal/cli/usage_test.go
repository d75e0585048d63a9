package cli

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestWrongUsage: what is wrong with arguments and flags is said in words about the command, never in words of cobra or of Go's functions.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ line, want string }{
		{"states", "no argument: the usage is 'kubectl kiln states (vm/NAME | vmi/NAME)', see 'kubectl kiln states --help'"},
		{"catalog push a", "1 argument ('a'): the usage is 'kubectl kiln catalog push DIR|FILE|-|cluster oci://HOST/REPOSITORY:VERSION', see "},
		{"instancetypes a b", "2 arguments ('a', 'b'): the usage is 'kubectl kiln instancetypes', see "},
		{"create instancetype", "missing --cpu and --memory, see 'kubectl kiln create instancetype --help'"},
		{"catalog pull oci://host/name:1", "missing --output-dir, see 'kubectl kiln catalog pull --help'"},
		{"create vm --preference a --infer-preference", "--preference and --infer-preference exclude each other: give one of them"},
		{"instancetypes --min-cpu x", "--min-cpu is 'x', must be a whole number, and not negative, see 'kubectl kiln instancetypes --help'"},
		{"instancetypes --min-cpu 99999999999", "--min-cpu is '99999999999', which is too large or too small, see "},
		{"states vm/web --state x", "--state is 'x', must be a whole number, see "},
		{"start web --force", "unknown flag: --force, see 'kubectl kiln start --help'"},
		{"stop web --force=x", "--force is 'x', must be true or false, see "},
		{"stop web --forse", "unknown flag --forse: did you mean --force?"},
		{"start web --dry-run=client", "--dry-run is 'client': only the API server knows what would change: use --dry-run=server, see "},
		{"start web --dry-run=later", "--dry-run is 'later': must be 'none' or 'server', see "},
		{"validate -f", "--filename (-f) has no value, see 'kubectl kiln validate --help'"},
		{"validate --kubevirt-version x -f y", "--kubevirt-version is 'x': "},
		{"instancetypes --min-memory 8", "--min-memory '8' is 8 bytes: write a unit such as Mi or Gi"},
		{"instancetypes --min-memory 512k", "--min-memory '512k' is 512000 bytes: write a unit such as Mi or Gi"},
		{"completion bash x", "1 argument ('x'): the usage is 'kubectl kiln completion bash', see "},
	} {
		got := call(t, "", strings.Fields(test.line)...)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.HasPrefix(got.err.Error(), test.want) || got.out != "" {
			t.Errorf("%s:\n%v, want\n%s", test.line, got.err, test.want)
		}
	}
}

// TestNoWordsOfCobra: whatever arguments a command gets, its error does not have the form of cobra's, such as "accepts 1 arg(s)" or "required flag(s)".
func TestNoWordsOfCobra(t *testing.T) {
	t.Parallel()
	words := regexp.MustCompile(`arg\(s\)|flag\(s\)|strconv|invalid argument|in the group`)
	var try func(line []string, cmd *cobra.Command)
	tried := 0
	try = func(line []string, cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			try(append(slices.Clone(line), child.Name()), child)
		}
		if cmd.HasSubCommands() {
			return
		}
		for _, args := range [][]string{{}, {"a"}, {"a", "b"}, {"a", "b", "c"}} {
			tried++
			if got := call(t, "", append(slices.Clone(line), args...)...); got.err != nil && words.MatchString(got.err.Error()) {
				t.Errorf("%q %q: %v", line, args, got.err)
			}
		}
	}
	for _, cmd := range Command(genericclioptions.IOStreams{}).Commands() {
		try([]string{cmd.Name()}, cmd)
	}
	if tried < 100 {
		t.Errorf("only %d calls were tried", tried)
	}
}

// TestCompletionOfMany: a name is found also if it is not on the first page of a list, and a page that cannot be read takes away nothing that was read.
func TestCompletionOfMany(t *testing.T) {
	t.Parallel()
	for last, want := range map[string]string{`{"items": [{"metadata": {"name": "web"}}]}`: "wall web", "no list": "wall"} {
		cluster := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/namespaces/shop/virtualmachines") {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			page := last
			if r.URL.Query().Get("continue") == "" {
				page = `{"metadata": {"continue": "second"}, "items": [{"metadata": {"name": "api"}}, {"metadata": {"name": "wall"}}]}`
			}
			fmt.Fprint(w, strings.Replace(page, "{", `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", `, 1))
			return true
		}}
		got := call(t, "", append(append([]string{"__complete"}, cluster.serve(t, vm)...), "-n", "shop", "start", "w")...)
		if names := strings.Join(strings.Fields(got.out), " "); names != want+" :4" {
			t.Errorf("%s: %q, want %q", last, names, want)
		}
	}
}

// TestCompletion: shells complete the names of the cluster's objects, and the values of flags.
func TestCompletion(t *testing.T) {
	t.Parallel()
	cluster := &apiServer{}
	flags := cluster.serve(t, vm, strings.Replace(vm, "name: web", "name: worker", 1), strings.Replace(vm, "name: web", "name: api", 1), size,
		"apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachinePreference\nmetadata: {name: fedora, namespace: shop}\nspec: {}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}")
	flags = append(flags, "-n", "shop")
	for _, test := range []struct{ line, want string }{
		{"start w", "web worker"},
		{"start web w", "worker"},
		{"console w", "web worker"},
		{"console web w", ""},
		{"explain vm/w", "vm/web vm/worker"},
		{"repin vm/web vm/a", "vm/api"},
		{"create vm --instancetype m", "medium"},
		{"create vm --preference virt", ""},
		{"create vm --preference virtualmachinepreference/f", "virtualmachinepreference/fedora"},
		{"create vm --run-strategy _", "Always Manual Halted Once RerunOnFailure"},
		{"preferences --for m", "medium"},
		{"start --dry-run=_", "none server"},
		{"start --namespace s", "shop"},
	} {
		args := append(append([]string{"__complete"}, flags...), strings.Fields(strings.ReplaceAll(test.line, "_", ""))...)
		if strings.HasSuffix(test.line, " _") {
			args = append(args, "")
		}
		got := call(t, "", args...)
		lines := strings.Fields(got.out)
		if got.err != nil || len(lines) == 0 || strings.Join(lines[:len(lines)-1], " ") != test.want {
			t.Errorf("%s: %v, %q, want %q", test.line, got.err, got.out, test.want)
		}
	}
}
