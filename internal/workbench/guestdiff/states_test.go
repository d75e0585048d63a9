package guestdiff

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/reviewed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// stored is a VM of a cluster with text in place of another one.
func stored(t *testing.T, bench *workbench.Bench, old, new string) workbench.Reviewed {
	t.Helper()
	of := strings.Replace(plain, "namespace: shop}", "namespace: shop, uid: of-the-vm, annotations: {kilnvm.io/identity: seed}}", 1)
	r := reviewed.Guest(t, bench, reviewed.Load(t, strings.Replace(of, old, new, 1)))
	r.Guest.VM.Generation = 3
	return r
}

// vmiOf is the VMI that a VM has made.
func vmiOf(t *testing.T, bench *workbench.Bench, vm workbench.Reviewed) *workbench.Reviewed {
	t.Helper()
	vmi := vm.Guest.Explicit.DeepCopy()
	vmi.TypeMeta = metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance"}
	metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1.VirtualMachineGenerationAnnotation, "2")
	raw, err := yaml.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	r := reviewed.Guest(t, bench, reviewed.Load(t, string(raw)))
	r.Guest.Explicit.UID = "of-the-vmi"
	r.Guest.Explicit.Status.Phase = v1.Running
	return &r
}

// TestStates: each state has its digest, cause and time, and says what differs from the state above.
func TestStates(t *testing.T) {
	t.Parallel()
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	bench := &workbench.Bench{}
	before := stored(t, bench, "", "")
	side := Side{Reviewed: before}
	if _, err := renderSide(t.Context(), bench, &side, nil); err != nil {
		t.Fatal(err)
	}
	recorded := side.rendered.Record
	at := metav1.NewTime(time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC))
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.GuestHardwareSpec{Hardware: &recorded},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "of-the-vm", Boots: 4,
			LastBoot: &v1alpha1.HardwareBoot{UID: "of-the-vmi", Digest: recorded.Digest, Time: at}}}
	pod := &v1alpha1.GuestPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.GuestPodSpec{VMIUID: "of-the-vmi",
		Hardware: &v1alpha1.GuestPodHardware{Frontend: "<domain/>"}},
		Status: v1alpha1.GuestPodStatus{Domain: &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning, Reason: "Booted"}}}
	cluster := func(objects ...client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
	}

	after := stored(t, bench, "devices: {", "devices: {rng: {}, ")
	after.Guest.Recorded = &recorded
	states, _, err := States(t.Context(), bench, cluster(hardware, pod), VMWithVMI{after, vmiOf(t, bench, before)})
	if err != nil || len(states) != 5 {
		t.Fatal(err, states)
	}
	for i, want := range []State{
		{Name: "template", Cause: "generation 3 of the VM"},
		{Name: "record", Cause: "boot 4, of VMI of-the-vmi", Digest: recorded.Digest},
		{Name: "vmi", Cause: "made from generation 2 of the VM", Digest: recorded.Digest},
		{Name: "running", Cause: "libvirt: Running, Booted", Digest: recorded.Digest},
		{Name: "snapshots", Cause: "the VM has no snapshots"},
	} {
		got := states[i]
		if got.State != i+1 || got.Name != want.Name || got.Cause != want.Cause || want.Digest != "" && got.Digest != want.Digest || got.Hidden ||
			i < 4 && got.Time == nil {
			t.Errorf("%+v, want %+v", got, want)
		}
		if differs := len(got.Changes) > 0; differs != (i == 1) {
			t.Errorf("state %s differs by %+v", got.Name, got.Changes)
		}
	}
	changes := states[1].Changes
	if record.Judge(changes) != record.NeedsRestart || !slices.ContainsFunc(changes, func(c record.Change) bool { return c.Text == "rng 'rng' is added" }) ||
		states[1].Newer != "template" || states[1].Older != "record" {
		t.Errorf("the record differs from the template by %+v", changes)
	}
	for _, c := range []struct {
		state        int
		format, want string
	}{{1, "yaml", "rng: {}"}, {1, "xml", "<rng "}, {2, "yaml", "digest: " + recorded.Digest}, {2, "xml", ""}, {3, "yaml", "kind: VirtualMachineInstance"},
		{3, "xml", "<domain "}, {4, "xml", "<domain/>"}, {4, "yaml", ""}, {5, "yaml", ""}} {
		text, err := states[c.state-1].Document(c.format)
		if errors.Is(err, ErrNoDocument) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("state %d as %s: %v\n%s", c.state, c.format, err, text)
		}
	}

	memory := stored(t, bench, "1Gi", "2Gi")
	memory.Guest.Recorded = &recorded
	states, _, err = States(t.Context(), bench, cluster(hardware), VMWithVMI{memory, nil})
	if err != nil || !states[1].Hidden || states[2].Digest != "" || states[2].Cause != "the VM has no VMI" || states[3].Cause != "no guest runs" {
		t.Errorf("%v: %+v", err, states)
	}
	hardware.Status.VirtualMachineUID = "another"
	states, _, err = States(t.Context(), bench, cluster(hardware), VMWithVMI{before, nil})
	if err != nil || states[1].Digest != "" || states[1].Cause != "the VM has not run yet" {
		t.Errorf("the record of another VM: %v: %+v", err, states)
	}
}
