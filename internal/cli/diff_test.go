package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/pkg/record"
)

const plain = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 1Gi}
        devices:
          disks: [{name: root, disk: {bus: virtio}}]
          interfaces: [{name: default, masquerade: {}, model: virtio}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, containerDisk: {image: "os:1"}}]
`

func compare(t *testing.T, args ...string) (guestdiff.Difference, answer) {
	t.Helper()
	got := call(t, "", append([]string{"diff", "-o", "json"}, args...)...)
	var d guestdiff.Difference
	if got.out != "" {
		if err := json.Unmarshal([]byte(got.out), &d); err != nil {
			t.Fatalf("%v\n%s", err, got.out)
		}
	}
	return d, got
}

func TestVerdictOnAChange(t *testing.T) {
	t.Parallel()
	_, before := write(t, plain)
	for _, test := range []struct {
		why, old, new string
		want          record.Verdict
		text          string
	}{
		{"the same twice", "shop", "shop", record.Compatible, ""},
		{"the guest does not see its caches", "disk: {bus: virtio}", "disk: {bus: virtio}, cache: writethrough", record.Compatible, ""},
		{"nor its image", "os:1", "os:2", record.Compatible, ""},
		{"a disk before another takes no place away", "disks: [", "disks: [{name: new, disk: {bus: virtio}}, ", record.NeedsRestart, "disk 'new' is added"},
		{"memory", "guest: 1Gi", "guest: 2Gi", record.NeedsRestart, "the memory changes from '1 GiB' to '2 GiB'"},
		{"another bus", "bus: virtio", "bus: sata", record.Breaks, "disk 'root' moves from vda"},
		{"a MAC", "model: virtio", "model: virtio, macAddress: '02:00:00:00:00:01'", record.Breaks, "interface 'default' changes its MAC"},
		{"another name is no change: it is the next version", "name: web", "name: web2", record.Compatible, ""},
	} {
		text := strings.Replace(plain, test.old, test.new, 1)
		if strings.Contains(text, "name: new") {
			text = strings.Replace(text, "volumes: [", "volumes: [{name: new, emptyDisk: {capacity: 1Gi}}, ", 1)
		}
		_, after := write(t, text)
		d, got := compare(t, before, after)
		status := map[record.Verdict]int{record.Compatible: 0, record.NeedsRestart: 3, record.Breaks: 4}[test.want]
		if d.Verdict != test.want || cmdutil.ExitStatus(got.err) != status {
			t.Errorf("%s: '%s' with exit status %d, want '%s' with %d: %+v %s", test.why, d.Verdict, cmdutil.ExitStatus(got.err), test.want, status, d.Changes,
				got.errOut)
		}
		if (d.BeforeDigest == d.AfterDigest) != (test.want == record.Compatible) {
			t.Errorf("%s: digests '%s' and '%s'", test.why, d.BeforeDigest, d.AfterDigest)
		}
		if text := call(t, "", "diff", before, after).out; !strings.HasPrefix(text, string(test.want)+"\n") || !strings.Contains(text, test.text) {
			t.Errorf("%s: want the verdict first, and '%s' in\n%s", test.why, test.text, text)
		}
	}
}

// TestConsequencesOfAChange: the root ports that a disk takes and leaves are among the changes of a document. The text has the disk alone.
func TestConsequencesOfAChange(t *testing.T) {
	t.Parallel()
	_, before := write(t, plain)
	_, after := write(t, strings.NewReplacer("disks: [", "disks: [{name: new, disk: {bus: virtio}}, ",
		"volumes: [", "volumes: [{name: new, emptyDisk: {capacity: 1Gi}}, ").Replace(plain))
	d, got := compare(t, before, after)
	if !strings.Contains(got.out, "changes its pci.target.hotplug from none to 'off'") || len(d.Changes) < 2 {
		t.Errorf("want the root ports in\n%s", got.out)
	}
	if text := call(t, "", "diff", before, after).out; !strings.HasPrefix(text, "needs restart\n  disk 'new' is added\n---") {
		t.Errorf("want the disk alone in\n%s", text)
	}
}

// TestDiffOfTheBootDisk: a record keeps the boot disk when the list of disks is edited. Without a record another disk boots, and 'diff' says so.
func TestDiffOfTheBootDisk(t *testing.T) {
	t.Parallel()
	_, before := write(t, plain)
	inserted := strings.NewReplacer("disks: [", "disks: [{name: new, disk: {bus: sata}}, ",
		"volumes: [", "volumes: [{name: new, emptyDisk: {capacity: 1Gi}}, ").Replace(plain)
	_, after := write(t, inserted)
	_, latest := write(t, strings.Replace(inserted, "template:\n", "template:\n    metadata: {annotations: {kilnvm.io/hardware: latest}}\n", 1))
	const moves = "what the firmware boots changes from disk 'root' to disk 'new'"
	for _, c := range []struct {
		why   string
		args  []string
		want  record.Verdict
		moves bool
	}{
		{"with a record", []string{before, after, "--runtime", "pod"}, record.NeedsRestart, false},
		{"with hardware 'latest'", []string{before, latest, "--runtime", "pod"}, record.Breaks, true},
		{"where KubeVirt runs the guest without Kiln's hook", []string{before, after, "--runtime", "kubevirt"}, record.Breaks, true},
	} {
		d, got := compare(t, c.args...)
		moved := false
		for _, change := range d.Changes {
			moved = moved || change.Text == moves && change.Verdict == record.Breaks
		}
		if d.Verdict != c.want || moved != c.moves {
			t.Errorf("%s: '%s', want '%s': %+v %s", c.why, d.Verdict, c.want, d.Changes, got.errOut)
		}
	}
}

func TestTextsOfADifference(t *testing.T) {
	t.Parallel()
	_, before := write(t, plain)
	_, after := write(t, strings.Replace(plain, "disk: {bus: virtio}", "disk: {bus: virtio}, cache: writethrough", 1))
	d, _ := compare(t, before, after)
	if !strings.Contains(d.Spec, "\n+      - cache: writethrough\n") ||
		!strings.Contains(d.Domain, `cache="writethrough"`) ||
		!strings.HasPrefix(d.Spec, "--- VirtualMachine shop/web of "+before) {
		t.Errorf("want unified diffs of spec and domain:\n%s\n%s", d.Spec, d.Domain)
	}
	if text := call(t, "", "diff", before, after).out; strings.Contains(text, "<disk") {
		t.Errorf("the domain is shown only when asked for:\n%s", text)
	}
	if text := call(t, "", "diff", before, after, "--domain").out; !strings.Contains(text, `cache="writethrough"`) {
		t.Errorf("--domain shows the domain:\n%s", text)
	}
}

func TestTwoHosts(t *testing.T) {
	t.Parallel()
	_, file := write(t, plain)
	host := func(text string) string {
		path := filepath.Join(t.TempDir(), "host.yaml")
		if err := os.WriteFile(path, []byte(hostKind+"{architecture: amd64, virtTypes: [kvm], emulators: {amd64: /usr/bin/qemu-system-x86_64}, "+text+"}"),
			0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := host("machines: {amd64: {q35: pc-q35-9.0, pc-q35-9.0: pc-q35-9.0}}")
	next := host("machines: {amd64: {q35: pc-q35-9.2, pc-q35-9.2: pc-q35-9.2, pc-q35-9.0: pc-q35-9.0}}")
	other := host("machines: {amd64: {q35: pc-q35-8.2, pc-q35-8.2: pc-q35-8.2}}")
	if d, got := compare(t, file, "--host", old, "--host", next); got.err != nil || d.Verdict != record.Compatible {
		t.Errorf("a newer host keeps the machine that is on record: %v %+v\n%s", got.err, d.Changes, got.errOut)
	}
	if _, got := compare(t, file, "--host", old, "--host", other); cmdutil.ExitStatus(got.err) != 1 || got.errOut != "" ||
		!strings.Contains(got.out, "pc-q35-9.0") || !strings.Contains(got.out, `"host": "`+other) {
		t.Errorf("a host without that machine cannot take the guest: %v\n%s%s", got.err, got.errOut, got.out)
	}
	if got := call(t, "", "diff", file, "--host", old, "--host", other); cmdutil.ExitStatus(got.err) != 1 || got.out != "" ||
		!strings.HasPrefix(got.errOut, "on "+other+": VirtualMachine shop/web is rejected:") {
		t.Errorf("and says so in words: %v\n%s%s", got.err, got.errOut, got.out)
	}
}

func TestDiffNeedsTwoSides(t *testing.T) {
	t.Parallel()
	_, one := write(t, plain)
	_, two := write(t, plain, strings.Replace(plain, "name: web", "name: other", 1))
	for why, args := range map[string][]string{
		"nothing to compare with": {one},
		"two VMs on one side":     {one, two},
		"three hosts":             {one, "--host", "a", "--host", "b", "--host", "c"},
		"no side":                 {},
	} {
		if _, got := compare(t, args...); cmdutil.ExitStatus(got.err) != 2 || got.out != "" {
			t.Errorf("%s: want exit status 2, got %v\n%s", why, got.err, got.out)
		}
	}
}
