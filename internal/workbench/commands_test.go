package workbench_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestOneVerdict: an object that is refused has the same causes at the same paths in the webhook, and in each command that needs a guest to answer. The
// commands have the same lines, too.
func TestOneVerdict(t *testing.T) {
	t.Parallel()
	refused, asked, unlike := 0, 0, 0
	good := filepath.Join(t.TempDir(), "good.yaml")
	const plain = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: good}\n" +
		"spec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n"
	if err := os.WriteFile(good, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../test/corpus/*/vm*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		if !exists(dir, "denied.txt") || exists(dir, "admitted.yaml") { // beside admitted.yaml, only a host refuses the VMI
			continue
		}
		var more []string
		if exists(dir, "cluster.yaml") {
			more = []string{"--catalog", filepath.Join(dir, "cluster.yaml")}
		}
		want := refusal(t, append([]string{"validate", "-f", file}, more...))
		if len(want.Causes) == 0 {
			t.Errorf("%s: 'validate' accepts it: %+v", file, want)
			continue
		}
		refused++
		for _, args := range [][]string{{"expand", "-f", file}, {"explain", "-f", file}, {"render", "-f", file}, {"diff", file, good}, {"diff", good, file}} {
			got := refusal(t, append(args, more...))
			if args[1] == good && got.Object == "VirtualMachine default/good" {
				unlike++ // the cluster of the case refuses every VM
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-validate +%s):\n%s", args, args[0], diff)
			}
		}
		for i := range want.Causes {
			want.Causes[i].File, want.Causes[i].Line = "", 0
		}
		if online, is := webhookAnswer(t, dir, file); is {
			asked++
			if diff := cmp.Diff(want.Causes, online.Causes); diff != "" {
				t.Errorf("%s (-validate +webhook):\n%s", file, diff)
			}
		}
	}
	t.Logf("%d objects are refused, the webhook was asked about %d of them", refused, asked)
	if refused < 50 || asked < 40 || unlike > refused/10 {
		t.Errorf("%d objects are refused, the webhook was asked about %d of them: the test looks at the wrong folder", refused, asked)
	}
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

// refusal returns the Judgement that a command prints for the only object that it refuses.
func refusal(t *testing.T, args []string) (found workbench.Judgement) {
	t.Helper()
	var out, errOut bytes.Buffer
	command := cli.Command(genericclioptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	command.SetArgs(append(args, "-o", "json", "--kubeconfig", filepath.Join(t.TempDir(), "none")))
	command.SetContext(t.Context())
	if status := cmdutil.ExitStatus(command.Execute()); status != 1 {
		t.Errorf("%q: exit status %d, want 1: %s", args, status, errOut.String())
	}
	var one struct{ Items []json.RawMessage }
	err := json.Unmarshal(out.Bytes(), &one)
	document := json.RawMessage(out.Bytes())
	if err == nil && len(one.Items) == 1 {
		document = one.Items[0]
	}
	if err == nil {
		err = json.Unmarshal(document, &found)
	}
	if err != nil {
		t.Errorf("%q: %v\n%s", args, err, out.String())
	}
	return found
}

// webhookAnswer returns what the webhook says of the object of a file; false if an API server refuses it by its schema, and asks no webhook.
func webhookAnswer(t *testing.T, dir, file string) (workbench.Judgement, bool) {
	t.Helper()
	files := manifest.Files{Names: []string{file}}
	if exists(dir, "cluster.yaml") {
		files.Catalog = []string{filepath.Join(dir, "cluster.yaml")}
	}
	in, err := manifest.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	var bench workbench.Bench
	all, err := bench.Review(t.Context(), in, nil)
	if err != nil || len(all.Objects) != 1 {
		t.Fatalf("%s: %d objects: %v", file, len(all.Objects), err)
	}
	if len(all.Objects[0].Mistakes) > 0 {
		return workbench.Judgement{}, false
	}
	return workbench.Online(t, &bench, all.Objects[0]), true
}
