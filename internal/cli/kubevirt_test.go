package cli

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/pkg/record"
)

// besideKubeVirt is what a cluster has in which KubeVirt runs guests.
const besideKubeVirt = `apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: virt-controller, namespace: kubevirt}
`

// TestWhoRunsGuests: by the flag, else by what lies beside the VM.
func TestWhoRunsGuests(t *testing.T) {
	t.Parallel()
	object := besideKubeVirt[:strings.Index(besideKubeVirt, "---")]
	for _, test := range []struct {
		why, beside, runtime string
		kubevirt             bool
	}{
		{"nothing says it", "", "", false},
		{"KubeVirt is installed", besideKubeVirt, "", true},
		{"KubeVirt is a configuration", object, "", false},
		{"the flag says KubeVirt", "", "kubevirt", true},
		{"the flag says pods of Kiln", besideKubeVirt, "pod", false},
		{"the flag says bare machines", besideKubeVirt, "node", false},
		{"the flag says what is the case", besideKubeVirt, "auto", true},
	} {
		documents := []string{plain}
		if test.beside != "" {
			documents = append(documents, test.beside)
		}
		_, file := write(t, documents...)
		args := []string{"explain", "-f", file}
		if test.runtime != "" {
			args = append(args, "--runtime", test.runtime)
		}
		got := call(t, "", args...)
		if filled := strings.Contains(got.out, `type: "q35"`) && !strings.Contains(got.out, "default (machine)"); got.err != nil || filled != test.kubevirt ||
			strings.Contains(got.out, "random firmware UUID") != test.kubevirt {
			t.Errorf("%s: %v\n%s%s", test.why, got.err, got.out, got.errOut)
		}
	}
	_, file := write(t, plain)
	if got := call(t, "", "explain", "-f", file, "--runtime", "both"); cmdutil.ExitStatus(got.err) != 2 ||
		!strings.Contains(got.err.Error(), "--runtime is 'both'") {
		t.Errorf("a word that is no value: %v", got.err)
	}
}

// TestRejectedBesideKubeVirt: what KubeVirt would make another guest of is rejected, and accepted where Kiln runs the guest.
func TestRejectedBesideKubeVirt(t *testing.T) {
	t.Parallel()
	_, file := write(t, strings.Replace(strings.Replace(plain, "  template:\n", "  template:\n    metadata: {annotations: {kilnvm.io/numa-cells: '2'}}\n", 1),
		"memory:", "cpu: {sockets: 2}\n        memory:", 1))
	if got := call(t, "", "validate", "-f", file); got.err != nil {
		t.Errorf("Kiln: %v %s", got.err, got.errOut)
	}
	if got := call(t, "", "validate", "-f", file, "--runtime", "kubevirt"); cmdutil.ExitStatus(got.err) != 1 ||
		!strings.Contains(got.errOut, "spec.template.metadata.annotations[kilnvm.io/numa-cells]: Forbidden: KubeVirt runs the guest") {
		t.Errorf("KubeVirt: %v %s", got.err, got.errOut)
	}
}

// TestRolloutsBesideKubeVirt: a change that KubeVirt makes while the guest runs is compatible.
func TestRolloutsBesideKubeVirt(t *testing.T) {
	t.Parallel()
	sized := strings.Replace(plain, "memory: {guest: 1Gi}", "cpu: {sockets: 1}\n        memory: {guest: 1Gi}", 1)
	staged := strings.Replace(besideKubeVirt, "---", "spec: {configuration: {vmRolloutStrategy: Stage}}\n---", 1)
	_, before := write(t, sized)
	for _, test := range []struct {
		why, catalog, old, new string
		want                   record.Verdict
		text                   string
	}{
		{"CPUs", besideKubeVirt, "sockets: 1", "sockets: 2", record.Compatible,
			"KubeVirt makes these changes while the guest runs, if it can be migrated: domain.cpu"},
		{"CPUs in stages", staged, "sockets: 1", "sockets: 2", record.NeedsRestart, "changes take effect when the VM is restarted: domain.cpu"},
		{"cores", besideKubeVirt, "sockets: 1", "sockets: 1, cores: 2", record.NeedsRestart, "changes take effect when the VM is restarted: domain.cpu"},
		{"a bus", besideKubeVirt, "bus: virtio", "bus: sata", record.Breaks, "changes take effect when the VM is restarted: domain.devices.disks"},
		{"what the guest does not see", besideKubeVirt, "os:1", "os:2", record.Compatible, "changes take effect when the VM is restarted: volumes"},
		{"nothing", besideKubeVirt, "os:1", "os:1", record.Compatible, ""},
		{"CPUs that Kiln adds", size, "sockets: 1", "sockets: 2", record.NeedsRestart, "the number of CPUs changes"},
	} {
		_, catalog := write(t, test.catalog)
		_, after := write(t, strings.Replace(sized, test.old, test.new, 1))
		d, got := compare(t, before, after, "--catalog", catalog)
		if d.Verdict != test.want || (d.Rollout != nil) != (test.catalog != size) {
			t.Errorf("%s: '%s', %+v %s", test.why, d.Verdict, d.Rollout, got.errOut)
		}
		text := call(t, "", "diff", before, after, "--catalog", catalog).out
		if !strings.HasPrefix(text, string(test.want)+"\n") || !strings.Contains(text, test.text) {
			t.Errorf("%s: want '%s' in\n%s", test.why, test.text, text)
		}
	}
}

// TestWhatKubeVirtFilledStays: the manifest of a VM lacks what KubeVirt wrote into the stored VM, and is no change of it.
func TestWhatKubeVirtFilledStays(t *testing.T) {
	t.Parallel()
	stored := strings.NewReplacer("  template:\n", "  template:\n    metadata: {annotations: {kubevirt.io/pci-topology-version: v3}}\n",
		"    spec:\n      domain:\n", "    spec:\n      architecture: amd64\n      domain:\n        machine: {type: q35}\n        firmware: "+
			"{uuid: 1f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a, serial: 2f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a}\n").Replace(plain)
	_, before := write(t, stored)
	_, after := write(t, plain)
	d, got := compare(t, before, after, "--runtime", "kubevirt")
	if got.err != nil || d.Verdict != record.Compatible || len(d.Changes) > 0 || d.Rollout == nil || len(d.Rollout.Warnings()) > 0 {
		t.Errorf("%v: %+v %+v", got.err, d.Changes, d.Rollout)
	}
}
