package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// judged are the documents of an answer that tell of a rejection.
func judged(t *testing.T, got answer) (all []workbench.Judgement) {
	t.Helper()
	for _, document := range items(t, got.out) {
		var j workbench.Judgement
		if err := json.Unmarshal(document, &j); err != nil {
			t.Fatalf("%v\n%s", err, got.out)
		}
		if j.Causes != nil && !j.Allowed {
			all = append(all, j)
		}
	}
	return all
}

// TestRejectionsAreDocuments: with -o json and -o yaml each command answers a rejection as 'validate' does, and says nothing besides.
func TestRejectionsAreDocuments(t *testing.T) {
	t.Parallel()
	_, sizes := write(t, size)
	_, file := write(t, conflicting)
	_, good := write(t, plain)
	message := `Invalid value: "1Gi": conflicts with VirtualMachineClusterInstancetype 'medium', which sets '2Gi': ` +
		`remove the field, or choose an instancetype that fits`
	want := []workbench.Judgement{{Object: "VirtualMachine shop/web", File: file, Warnings: []string{}, Causes: []workbench.Cause{{
		Type: "FieldValueInvalid", Field: "spec.template.spec.domain.memory.guest", Message: message, File: file, Line: 9}}}}
	for _, args := range [][]string{
		{"validate", "-f", file}, {"expand", "-f", file}, {"expand", "-f", file, "--stage", "all"}, {"explain", "-f", file},
		{"render", "-f", file}, {"render", "-f", file, "--stage", "frontend"}, {"diff", file, good}, {"diff", good, file},
	} {
		args = append(args, "--catalog", sizes)
		got := call(t, "", append(args, "-o", "json")...)
		if diff := cmp.Diff(want, judged(t, got)); diff != "" || cmdutil.ExitStatus(got.err) != 1 || got.errOut != "" {
			t.Errorf("%q: %v, stderr '%s' (-want +got):\n%s", args, got.err, got.errOut, diff)
		}
		var one struct {
			APIVersion, Kind string
			workbench.Judgement
		}
		got = call(t, "", append(args, "-o", "yaml")...)
		if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(got.out, "---\n")), &one); err != nil || cmdutil.ExitStatus(got.err) != 1 || got.errOut != "" {
			t.Errorf("%q -o yaml: %v %v, stderr '%s'\n%s", args, err, got.err, got.errOut, got.out)
		} else if diff := cmp.Diff(want[0], one.Judgement); diff != "" || one.Kind != "Judgement" {
			t.Errorf("%q -o yaml (-want +got):\n%s", args, diff)
		}
	}
}

// items are the documents of an answer in JSON: the items of its list, or the answer itself.
func items(t *testing.T, text string) []json.RawMessage {
	t.Helper()
	var one struct {
		APIVersion, Kind string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &one); err != nil || one.APIVersion == "" || one.Kind == "" {
		t.Fatalf("%v: one document with apiVersion and kind is wanted, got\n%s", err, text)
	}
	if one.Kind == "List" && one.APIVersion == "v1" {
		return one.Items
	}
	return []json.RawMessage{json.RawMessage(text)}
}

// item is the only document of an answer.
func item(t *testing.T, got answer) json.RawMessage {
	t.Helper()
	all := items(t, got.out)
	if len(all) != 1 {
		t.Fatalf("%d documents, want one: %v\n%s%s", len(all), got.err, got.out, got.errOut)
	}
	return all[0]
}

// TestRejectionsBesideAnswers: the documents of one run are one list.
func TestRejectionsBesideAnswers(t *testing.T) {
	t.Parallel()
	_, file := write(t, size, conflicting, strings.Replace(plain, "name: web", "name: other", 1))
	got := call(t, "", "expand", "-f", file, "-o", "json")
	if refused := judged(t, got); len(refused) != 1 || !strings.Contains(got.out, `"kind": "VirtualMachineInstance"`) ||
		!strings.Contains(got.out, `"kind": "Judgement"`) || cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("want a rejection and a guest: %+v %v\n%s", refused, got.err, got.out)
	}
}

// TestWhatIsNotThereInJSON: a VM whose instancetype is not known has no explicit VMI; the document names the reference.
func TestWhatIsNotThereInJSON(t *testing.T) {
	t.Parallel()
	_, file := write(t, preferred)
	for _, command := range []string{"expand", "explain", "render"} {
		got := call(t, "", command, "-f", file, "-o", "json")
		all := judged(t, got)
		if len(all) != 1 || len(all[0].Causes) != 2 || len(all[0].Warnings) == 0 || cmdutil.ExitStatus(got.err) != 1 || got.errOut != "" {
			t.Fatalf("%s: want one document with two causes: %v %s\n%s", command, got.err, got.errOut, got.out)
		}
		size, preference := all[0].Causes[0], all[0].Causes[1]
		if size.Type != "FieldValueNotFound" || size.Field != "spec.instancetype.name" || size.Line != 6 || preference.Field != "spec.preference.name" {
			t.Errorf("%s: %+v", command, all[0].Causes)
		}
	}
}

// hostKind begins the file of a --host. Its spec follows.
const hostKind = "apiVersion: kilnvm.io/v1alpha1\nkind: HostCapabilities\nspec: "

// TestHostThatRefuses: what only a host cannot give names the host.
func TestHostThatRefuses(t *testing.T) {
	t.Parallel()
	_, file := write(t, plain)
	host := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(host, []byte(hostKind+"{architecture: arm64, virtTypes: [kvm], emulators: {arm64: /usr/bin/qemu-system-aarch64}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call(t, "", "render", "-f", file, "--host", host, "-o", "json")
	if all := judged(t, got); len(all) != 1 || all[0].Host != host || len(all[0].Causes) == 0 || got.errOut != "" {
		t.Errorf("%+v %v\n%s%s", all, got.err, got.errOut, got.out)
	}
}

// TestWhatTheClusterRefuses: 'repin' hands on the causes of an API server.
func TestWhatTheClusterRefuses(t *testing.T) {
	t.Parallel()
	named := manifest.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"kind": "VirtualMachine", "metadata": map[string]any{"name": "web", "namespace": "shop"}}}}
	invalid := apierrors.NewInvalid(v1.VirtualMachineGroupVersionKind.GroupKind(), "web", field.ErrorList{field.Required(field.NewPath("spec", "template"), "")})
	for _, documents := range []bool{true, false} {
		streams, _, out, errOut := genericclioptions.NewTestIOStreams()
		o := &repinRun{cmdutil.NewInputs(&cmdutil.Session{IOStreams: streams})}
		o.Output, o.Documents = "json", documents
		if err := o.refusedByCluster(named, invalid); cmdutil.ExitStatus(err) != 1 {
			t.Errorf("exit status of %v, want 1", err)
		}
		if documents {
			want := []workbench.Judgement{{Object: "VirtualMachine shop/web", Warnings: []string{},
				Causes: []workbench.Cause{{Type: "FieldValueRequired", Field: "spec.template", Message: "Required value"}}}}
			if diff := cmp.Diff(want, judged(t, answer{out: out.String()})); diff != "" || errOut.Len() > 0 {
				t.Errorf("(-want +got):\n%s%s", diff, errOut)
			}
		} else if out.Len() > 0 || !strings.Contains(errOut.String(), "spec.template: Required value") {
			t.Errorf("in words: %s%s", out, errOut)
		}
	}
}

// TestEachAnswerHasAKind: each command with -o json names the kind of its documents, except those that print objects of an API, and version,
// which prints the fields of the build.
func TestEachAnswerHasAKind(t *testing.T) {
	t.Parallel()
	objects := []string{"kiln expand", "kiln capture", "kiln create vm", "kiln create instancetype", "kiln create preference", "kiln version"}
	seen := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			visit(below)
		}
		flag := cmd.Flags().Lookup("output")
		if !cmd.Runnable() || flag == nil || !strings.Contains(flag.Usage+flag.Value.Type(), "json") {
			return
		}
		seen++
		path := strings.TrimPrefix(cmd.CommandPath(), "kubectl ")
		if cmd.Annotations[cmdutil.AnnotationAnswer] == "" && !slices.Contains(objects, path) {
			t.Errorf("'%s -o json' has documents without a kind", path)
		}
	}
	visit(Command(genericiooptions.IOStreams{}))
	if seen < 15 {
		t.Errorf("%d commands with -o json, want at least 15", seen)
	}
}
