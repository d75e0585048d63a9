package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/samples"
)

const preferring = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata:
  name: linux
  labels: {example.com/team: a}
spec:
  preferredArchitecture: amd64
  devices:
    preferredDiskBus: virtio
`

func TestCatalogDiff(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"one/all.yaml": unlabelled + "---\n" + preferring, "more/all.yaml": strings.Replace(unlabelled, "guest: 4Gi", "guest: 8Gi", 1) + "---\n" + preferring,
		"bus/all.yaml": unlabelled + "---\n" + strings.Replace(preferring, "virtio", "scsi", 1), "less/all.yaml": preferring,
		"refused/all.yaml": unlabelled + "---\n" + strings.Replace(preferring, "virtio", "ide", 1),
		"words/all.yaml":   strings.Replace(unlabelled, "labels:", "annotations: {note: \"a\\e[31mb\"}\n  labels:", 1) + "---\n" + preferring,
		"wrong/all.yaml":   strings.Replace(unlabelled, "guest: 2", "gest: 2", 1), "unread/all.yaml": "- a\n",
	})
	for _, test := range []struct {
		a, b, out string
		status    int
		flags     []string
	}{
		{"one", "one", "compatible: 0 added, 0 removed, 0 changed, 2 unchanged; no new version\n", 0, nil},
		{"one", "words", "compatible: 0 added, 0 removed, 1 changed, 1 unchanged; this is a patch version\n" +
			"~ VirtualMachineClusterInstancetype small (patch)\n    metadata.annotations[note]: added \"a\\x1b[31mb\"\n", 0, nil},
		{"one", "more", `needs restart: 0 added, 0 removed, 1 changed, 1 unchanged; this is a minor version
~ VirtualMachineClusterInstancetype small: needs restart (minor)
    spec.memory.guest: "4Gi" -> "8Gi"
    the memory changes from '4 GiB' to '8 GiB'
        on amd64, arm64, s390x; with no preference, linux
    the NUMA nodes change from 'CPUs 0-7 with 4 GiB' to 'CPUs 0-7 with 8 GiB'
        on amd64; with no preference, linux
`, 3, nil},
		{"one", "more", "compatible: 0 added, 0 removed, 0 changed, 1 unchanged; no new version\n", 0, []string{"-l", "example.com/team=a"}},
		{"one", "less", "compatible: 0 added, 1 removed, 0 changed, 1 unchanged; this is a major version\n" +
			"- VirtualMachineClusterInstancetype small (major)\n", 0, nil},
		{"less", "one", "compatible: 1 added, 0 removed, 0 changed, 1 unchanged; this is a minor version\n" +
			"+ VirtualMachineClusterInstancetype small (minor)\n", 0, nil},
		{"one", "wrong", "", 1, nil}, {"wrong", "one", "", 1, nil}, {"unread", "one", "", 2, nil}, {"one", "nowhere", "", 2, nil},
		{"one", "one", "", 2, []string{"-l", "a=b=c"}},
	} {
		args := append([]string{"catalog", "diff", filepath.Join(dir, test.a), filepath.Join(dir, test.b)}, test.flags...)
		got := call(t, "", args...)
		if diff := cmp.Diff(test.out, got.out); diff != "" || cmdutil.ExitStatus(got.err) != test.status {
			t.Errorf("%s, %s %v: status %d, want %d, %v\n%s\n-want +got\n%s", test.a, test.b, test.flags, cmdutil.ExitStatus(got.err), test.status, got.err,
				got.errOut, diff)
		}
	}
	for _, test := range []struct{ b, words string }{
		{"bus", "    disk 'root' moves from vda at "}, {"bus", "   <- breaks\n        on amd64; with just what it required, small\n"},
		{"refused", "~ VirtualMachineClusterPreference linux: refused (major)\n"}, {"refused", "    refused: spec.preference: preference 'linux' sets "},
	} {
		got := call(t, "", "catalog", "diff", filepath.Join(dir, "one"), filepath.Join(dir, test.b))
		if cmdutil.ExitStatus(got.err) != 4 || !strings.Contains(got.out, test.words) {
			t.Errorf("%s: status %d, want '%s' in\n%s", test.b, cmdutil.ExitStatus(got.err), test.words, got.out)
		}
	}
}

func TestDocumentOfCatalogDiff(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"one/all.yaml": unlabelled, "two/all.yaml": strings.Replace(unlabelled, "guest: 4Gi", "guest: 8Gi", 1)})
	got := call(t, "", "catalog", "diff", filepath.Join(dir, "one"), filepath.Join(dir, "two"), "-o", "json")
	var d catalog.Difference
	if err := json.Unmarshal([]byte(got.out), &d); err != nil {
		t.Fatal(err)
	}
	want := catalog.FieldChange{Path: "spec.memory.guest", Before: `"4Gi"`, After: `"8Gi"`}
	if cmdutil.ExitStatus(got.err) != 3 || d.Verdict != record.NeedsRestart || d.Step != catalog.Minor || d.Changes[0].Name != "small" ||
		d.Changes[0].Fields[0] != want ||
		d.Changes[0].Seen[0].Part != record.PartMemory || len(d.Changes[0].Seen[0].Architectures) != 3 {
		t.Errorf("%v\n%s", got.err, got.out)
	}
}

// TestDifferenceOfThePublishedCatalog: a whole catalog is compared with itself, and as files in another order.
func TestDifferenceOfThePublishedCatalog(t *testing.T) {
	t.Parallel()
	dir := samples.Catalog(t)
	got := call(t, "", "catalog", "diff", dir, dir)
	if want := "compatible: 0 added, 0 removed, 0 changed, 122 unchanged; no new version\n"; got.err != nil || got.out != want {
		t.Errorf("%v\n%s", got.err, got.out)
	}
}
