package guestdiff

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/reviewed"
)

const hostKind = "apiVersion: kilnvm.io/v1alpha1\nkind: HostCapabilities\nspec: "

const plain = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 1Gi}
        devices: {disks: [{name: root, disk: {bus: virtio}}]}
      volumes: [{name: root, containerDisk: {image: "os:1"}}]
`

// write writes a file of its own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefusals: what a host cannot run is an error with the causes, the guest and the host; the object that was reviewed keeps its own verdict.
func TestRefusals(t *testing.T) {
	t.Parallel()
	bench := &workbench.Bench{}
	r := reviewed.Guest(t, bench, reviewed.Load(t, plain))
	host := write(t, "host.yaml", hostKind+"{architecture: arm64, virtTypes: [kvm], emulators: {arm64: /usr/bin/qemu-system-aarch64}}")
	_, rendered := bench.Render(t.Context(), r, workbench.Rendering{Placing: workbench.Placing{Host: host}})
	_, compared := Compare(t.Context(), bench, Side{Reviewed: r}, Side{Reviewed: r, Host: host})
	running, err := workbench.ReadRunning("-", strings.NewReader("<domain type='kvm'><name>other</name><memory unit='GiB'>2</memory></domain>"))
	if err != nil {
		t.Fatal(err)
	}
	_, captured := workbench.Capture(r, running, "")
	for of, err := range map[string]error{"render": rendered, "compare": compared, "capture": captured} {
		var refusal *workbench.Refusal
		if !errors.As(err, &refusal) || refusal.Guest.Verdict.Allowed() || refusal.Guest.Name() != "VirtualMachine shop/web" ||
			(refusal.Host == host) != (of != "capture") {
			t.Errorf("%s: want a refusal with causes, got %v", of, err)
		}
	}
	if !r.Verdict.Allowed() {
		t.Error("a refusal changes the verdict of the object that was given")
	}
}

// TestCompareLeavesItsSides: the second side is taken for the next version of the first, and the caller's object stays as it was.
func TestCompareLeavesItsSides(t *testing.T) {
	t.Parallel()
	bench := &workbench.Bench{}
	before := reviewed.Guest(t, bench, reviewed.Load(t, plain))
	after := reviewed.Guest(t, bench, reviewed.Load(t, strings.Replace(plain, "bus: virtio", "bus: sata", 1)))
	kept := after.Guest.Explicit.DeepCopy()
	d, err := Compare(t.Context(), bench, Side{Reviewed: before}, Side{Reviewed: after})
	if err != nil || d.Verdict != record.Breaks || len(d.Changes) == 0 || d.BeforeDigest == d.AfterDigest || !strings.Contains(d.Spec, "bus: sata") {
		t.Errorf("another bus: %v %+v", err, d)
	}
	if diff := cmp.Diff(kept, after.Guest.Explicit); diff != "" {
		t.Errorf("the second side changes (-before +after):\n%s", diff)
	}
}
