package cli

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/rehearsal"
)

// more is the instancetype 'medium' with other CPUs.
var more = strings.Replace(size, "guest: 3", "guest: 5", 1)

// TestRehearse: the counts come first, then the groups by cause, with what the guest notices and whose VMs they are.
func TestRehearse(t *testing.T) {
	t.Parallel()
	owned := strings.Replace(vm, "name: web, namespace: shop", "name: db, namespace: lab, labels: {app.kubernetes.io/part-of: books, team: \"=cmd|x\"}", 1)
	missing := strings.Replace(vm, "name: web", "name: lost", 1)
	missing = strings.Replace(missing, "name: medium", "name: gone", 1)
	_, dump := write(t, size, vm, owned)
	_, change := write(t, more)
	got := call(t, "", "rehearse", "-f", dump, "--with", change)
	want := []string{"2 VMs: 0 same, 0 live, 2 restart, 0 breaks, 0 refused\n", "changes: 1 changed (VirtualMachineClusterInstancetype medium)\n",
		"\nrestart: 2 VMs, for example lab/db\n  cause: VirtualMachineClusterInstancetype medium: medium-",
		"  guest: the number of CPUs changes", "  namespaces: lab 1, shop 1\n",
		"  owners: (no label) 1, books 1\n"}
	for _, text := range want {
		if !strings.Contains(got.out, text) {
			t.Errorf("'%s' is missing in\n%s%s", text, got.out, got.errOut)
		}
	}
	if cmdutil.ExitStatus(got.err) != 3 {
		t.Errorf("exit status %d: %v", cmdutil.ExitStatus(got.err), got.err)
	}
	rows, err := csv.NewReader(strings.NewReader(call(t, "", "rehearse", "-f", dump, "--with", change, "-o", "csv", "--owner-label", "team").out)).ReadAll()
	if err != nil || len(rows) != 3 || strings.Join(rows[1][:4], " ") != "lab db '=cmd|x restart" {
		t.Errorf("%v: %q", err, rows)
	}
	var answer rehearsal.Rehearsal
	packed := call(t, "", "rehearse", "-f", dump, "--with", change, "-o", "json")
	if err := json.Unmarshal([]byte(packed.out), &answer); err != nil || answer.Counts[rehearsal.Restart] != 2 || len(answer.Groups) != 1 ||
		answer.VMs[0].Group != 1 || !strings.Contains(packed.out, `"kind": "Rehearsal"`) {
		t.Errorf("%v: %s", err, packed.out)
	}
	if again := call(t, "", "rehearse", "-f", dump, "--with", change, "-o", "json"); again.out != packed.out {
		t.Error("two runs differ")
	}
	_, partly := write(t, size, vm, missing)
	got = call(t, "", "rehearse", "-f", partly, "--with", change)
	if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, "error: VirtualMachine shop/lost: it cannot boot: ") {
		t.Errorf("%v: %s%s", got.err, got.out, got.errOut)
	}
}

// TestRehearseShortens: of many changes, the text shows breaking ones first, and -o wide all.
func TestRehearseShortens(t *testing.T) {
	t.Parallel()
	disk := strings.Replace(vm, "devices: {}", "devices: {disks: [{name: root, disk: {}}]}", 1)
	disk = strings.Replace(disk, "instancetype: {name: medium}", "instancetype: {name: medium}\n  preference: {name: p}", 1)
	const preference = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\nmetadata: {name: p}\n" +
		"spec: {devices: {preferredDiskBus: virtio}}\n"
	const other = "{preferredDiskBus: sata, preferredRng: {}, preferredTPM: {}, preferredAutoattachInputDevice: true, preferredVideoType: virtio}"
	_, dump := write(t, size, preference, disk)
	_, change := write(t, strings.Replace(preference, "{preferredDiskBus: virtio}", other, 1), more)
	lines := strings.Split(call(t, "", "rehearse", "-f", dump, "--with", change).out, "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  guest: ") })
	shortened := slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, " more changes") })
	if first < 0 || !strings.Contains(lines[first], "<- breaks") || !shortened {
		t.Errorf("%q", lines)
	}
	if wide := call(t, "", "rehearse", "-f", dump, "--with", change, "-o", "wide").out; strings.Contains(wide, "more changes") {
		t.Errorf("-o wide leaves changes out:\n%s", wide)
	}
}

// TestRehearseStatuses: the worst verdict of the changes decides the exit status.
func TestRehearseStatuses(t *testing.T) {
	t.Parallel()
	disk := strings.Replace(vm, "devices: {}", "devices: {disks: [{name: root, disk: {}}]}", 1)
	disk = strings.Replace(disk, "instancetype: {name: medium}", "instancetype: {name: medium}\n  preference: {name: p}", 1)
	const preference = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterPreference\n" +
		"metadata: {name: p}\nspec: {devices: {preferredDiskBus: virtio}}\n"
	_, dump := write(t, size, preference, disk)
	for _, test := range []struct {
		why    string
		args   []string
		change string
		status int
	}{
		{"nothing changes", nil, size, 0},
		{"without a change", []string{"-o", "wide"}, "", 0},
		{"more CPUs", nil, more, 3},
		{"another bus", nil, strings.Replace(preference, "virtio", "sata", 1), 4},
		{"requirements", nil, strings.Replace(preference, "spec: {", "spec: {requirements: {cpu: {guest: 8}}, ", 1), 4},
		{"a folder that is missing", []string{"--with", "missing"}, "", 2},
		{"an installed catalog", []string{"--with", "catalog=cluster"}, "", 2},
	} {
		args := append([]string{"rehearse", "-f", dump}, test.args...)
		if test.change != "" {
			_, change := write(t, test.change)
			args = append(args, "--with", change)
		}
		if got := call(t, "", args...); cmdutil.ExitStatus(got.err) != test.status {
			t.Errorf("%s: exit status %d, want %d: %v\n%s%s", test.why, cmdutil.ExitStatus(got.err), test.status, got.err, got.out, got.errOut)
		}
	}
}

// TestRehearseCluster: a cluster is rehearsed like its dump, a Secret is never read, and a state makes the next run shorter.
func TestRehearseCluster(t *testing.T) {
	t.Parallel()
	stored := strings.Replace(vm, "namespace: shop", "namespace: shop, uid: u1, resourceVersion: \"5\"", 1)
	var requests []string
	server := &apiServer{answer: func(_ http.ResponseWriter, r *http.Request) bool {
		requests = append(requests, r.Method+" "+r.URL.Path)
		return false
	}}
	flags := server.serve(t, size, stored)
	_, change := write(t, more)
	state := filepath.Join(t.TempDir(), "state")
	got := call(t, "", append([]string{"rehearse", "-A", "--with", change, "--state", state}, flags...)...)
	if cmdutil.ExitStatus(got.err) != 3 || !strings.Contains(got.out, "1 VM: 0 same, 0 live, 1 restart") {
		t.Errorf("%v: %s%s", got.err, got.out, got.errOut)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state: %v %v", info, err)
	}
	for _, request := range requests {
		if strings.HasSuffix(request, "/secrets") || strings.Contains(request, "/secrets/") || !strings.HasPrefix(request, "GET ") {
			t.Errorf("a Secret is read, or something is written: %s", request)
		}
	}
	if len(requests) == 0 {
		t.Error("the cluster was not read")
	}
}
