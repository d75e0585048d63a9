package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/guestdiff"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// booted is a VM of a cluster that has booted on a host with machine pc-q35-10.0: the VM, its VMI and its GuestHardware as YAML.
type booted struct{ vm, vmi, hardware string }

func boots(t *testing.T, change func(*v1.VirtualMachineInstance)) booted {
	t.Helper()
	of := booted{vm: strings.Replace(plain, "namespace: shop}", "namespace: shop, uid: of-the-vm, generation: 3, annotations: {kilnvm.io/identity: seed}}", 1)}
	explicit := call(t, of.vm, "expand", "-f", "-")
	if explicit.err != nil {
		t.Fatal(explicit.err, explicit.errOut)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.Unmarshal([]byte(explicit.out), vmi); err != nil {
		t.Fatal(err)
	}
	isController := true
	vmi.UID, vmi.Annotations = "of-the-vmi", map[string]string{v1alpha1.AnnotationIdentity: "seed"}
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "web", UID: "of-the-vm", Controller: &isController}}
	vmi.Status.Phase = v1.Running
	identity.Fill(vmi, "seed")
	if change != nil {
		change(vmi)
	}
	host := backend.Assumed("amd64")
	host.Machines = map[string]map[string]string{"amd64": {"q35": "pc-q35-10.0", "pc-q35-10.0": "pc-q35-10.0"}}
	m := render.Machine{VMI: vmi, Host: host, Defaults: config.Default().FrontendDefaults(), Bindings: backend.AssumedBindings(vmi)}
	rendered, errs := render.FromFacts(m, render.Facts(m))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	hardware := v1alpha1.GuestHardware{TypeMeta: metav1.TypeMeta{APIVersion: "kilnvm.io/v1alpha1", Kind: "GuestHardware"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.GuestHardwareSpec{Hardware: &rendered.Record},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "of-the-vm", Boots: 1,
			LastBoot: &v1alpha1.HardwareBoot{UID: vmi.UID, Digest: rendered.Record.Digest, Time: metav1.Unix(1, 0)}}}
	for into, object := range map[*string]any{&of.vmi: vmi, &of.hardware: hardware} {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		*into = string(text)
	}
	return of
}

func startsPaused(vmi *v1.VirtualMachineInstance) {
	strategy := v1.StartStrategyPaused
	vmi.Spec.StartStrategy = &strategy
}

// addsDisk and asksForLatest are edits of the VM's text.
var (
	addsDisk = strings.NewReplacer("disks: [", "disks: [{name: extra, disk: {bus: virtio}}, ",
		"volumes: [", "volumes: [{name: extra, emptyDisk: {capacity: 1Gi}}, ")
	asksForLatest = strings.NewReplacer("identity: seed", "identity: seed, kilnvm.io/hardware: latest", "template:\n",
		"template:\n    metadata: {annotations: {kilnvm.io/hardware: latest}}\n")
)

// TestDiffOfAVMWithWhatItBooted: 'diff vm/NAME' says what an edit waits for, and first what it compares. An untouched VM is the same, whatever its alias of
// machine types stands for.
func TestDiffOfAVMWithWhatItBooted(t *testing.T) {
	t.Parallel()
	const (
		running = "compared: VirtualMachineInstance shop/web, which runs, with the template of VirtualMachine shop/web\n"
		record  = "compared: GuestHardware shop/web, the record of the last boot, with the template of VirtualMachine shop/web\n"
		latest  = "compared: GuestHardware shop/web, the record of the last boot, with what 'kilnvm.io/hardware: latest' would boot\n"
		unknown = "needs restart\n  the guest will see other hardware in something that a record does not contain: memory"
	)
	of := boots(t, nil)
	paused := boots(t, startsPaused)
	memory := strings.NewReplacer("guest: 1Gi", "guest: 2Gi")
	for _, c := range []struct {
		why     string
		objects []string
		args    []string
		status  int
		want    string
	}{
		{"untouched", []string{of.vm, of.vmi, of.hardware}, nil, 0, running + "the same\n"},
		{"untouched, by its VMI", []string{of.vm, of.vmi, of.hardware}, []string{"vmi/web"}, 0, running + "the same\n"},
		{"untouched and stopped", []string{of.vm, of.hardware}, nil, 0, record + "the same\n"},
		{"started paused", []string{paused.vm, paused.vmi, paused.hardware}, nil, 0, running + "the same\n"},
		{"stopped after a paused start", []string{paused.vm, paused.hardware}, nil, 0, record + "the same\n"},
		{"a disk", []string{addsDisk.Replace(of.vm), of.vmi, of.hardware}, nil, 3, running + "needs restart\n  disk 'extra' is added\n"},
		{"a disk of a stopped VM", []string{addsDisk.Replace(of.vm), of.hardware}, nil, 3, record + "needs restart\n  disk 'extra' is added\n"},
		{"memory", []string{memory.Replace(of.vm), of.vmi, of.hardware}, nil, 3, running + "needs restart\n  the memory changes from '1 GiB' to '2 GiB'\n"},
		{"memory of a stopped VM", []string{memory.Replace(of.vm), of.hardware}, nil, 3, record + unknown},
		{"the other question", []string{of.vm, of.vmi, of.hardware}, []string{"vm/web", "--latest"}, 0, latest + "the same\n"},
		{"that asks for the latest", []string{asksForLatest.Replace(of.vm), of.vmi, of.hardware}, nil, 0, running + "the same\n"},
		{"that asks for the latest and is stopped", []string{asksForLatest.Replace(of.vm), of.hardware}, nil, 0, record + "the same\n"},
		{"that asks for the latest, the other question", []string{asksForLatest.Replace(of.vm), of.hardware}, []string{"vm/web", "--latest"}, 0,
			latest + "the same\n"},
		{"never run", []string{of.vm}, nil, 2, ""},
		{"never run, the other question", []string{of.vm}, []string{"vm/web", "--latest"}, 2, ""},
		{"two objects, the other question", []string{of.vm}, []string{"vm/web", "vm/web", "--latest"}, 2, ""},
	} {
		args := append([]string{"diff"}, c.args...)
		if c.args == nil {
			args = append(args, "vm/web")
		}
		got := call(t, "", append(args, new(apiServer).serve(t, c.objects...)...)...)
		if cmdutil.ExitStatus(got.err) != c.status || !strings.HasPrefix(got.out, c.want) || strings.HasSuffix(c.want, "the same\n") && got.out != c.want {
			t.Errorf("%s: exit status %d, %v, want %d and\n%s\ngot\n%s%s", c.why, cmdutil.ExitStatus(got.err), got.err, c.status, c.want, got.out, got.errOut)
		}
	}
}

// TestDiffOfAFileWithItsRecord: a GuestHardware among the files is what the VM has booted.
func TestDiffOfAFileWithItsRecord(t *testing.T) {
	t.Parallel()
	of := boots(t, nil)
	_, file := write(t, of.vm, of.hardware)
	d, got := compare(t, file)
	if got.err != nil || len(d.Changes) > 0 || d.BeforeDigest != d.AfterDigest || !strings.HasPrefix(d.Compared, "GuestHardware shop/web, the record") {
		t.Errorf("%v %s%s: %+v", got.err, got.out, got.errOut, d)
	}
}

// TestLatestMovesDevices: the other question names what a boot with the record would keep.
func TestLatestMovesDevices(t *testing.T) {
	t.Parallel()
	of := boots(t, nil)
	edited := strings.NewReplacer("disks: [", "disks: [{name: extra, disk: {bus: virtio}}, ",
		"volumes: [", "volumes: [{name: extra, emptyDisk: {capacity: 1Gi}}, ").Replace(of.vm)
	flags := new(apiServer).serve(t, edited, of.hardware)
	var d guestdiff.Difference
	got := call(t, "", append([]string{"diff", "vm/web", "--latest", "-o", "json"}, flags...)...)
	if err := json.Unmarshal([]byte(got.out), &d); err != nil {
		t.Fatal(err, got.errOut)
	}
	texts := []string{}
	for _, change := range d.Changes {
		texts = append(texts, change.Text)
	}
	moves := func(text string) bool { return strings.HasPrefix(text, "disk 'root' moves from") }
	if cmdutil.ExitStatus(got.err) != 4 || !slices.ContainsFunc(texts, moves) || strings.Contains(got.out, "q35") {
		t.Errorf("exit status %d: %q", cmdutil.ExitStatus(got.err), texts)
	}
}

// TestStatesNameDifferences: 'states' says what an edit changes in the words of 'diff' and in the direction of the edit, without root ports. A VMI is found by
// its VM.
func TestStatesNameDifferences(t *testing.T) {
	t.Parallel()
	of := boots(t, nil)
	paused := boots(t, startsPaused)
	edit := strings.NewReplacer("guest: 1Gi", "guest: 2Gi}\n        cpu: {sockets: 2")
	for _, c := range []struct {
		why     string
		objects []string
		want    string
	}{
		{"untouched", []string{of.vm, of.vmi, of.hardware}, ""},
		{"untouched and asks for the latest", []string{asksForLatest.Replace(of.vm), of.vmi, of.hardware}, ""},
		{"a disk", []string{addsDisk.Replace(of.vm), of.vmi, of.hardware}, "\n1 template differs from 2 record: needs restart\n  disk 'extra' is added\n"},
		{"a disk of a stopped VM", []string{addsDisk.Replace(of.vm), of.hardware}, "\n1 template differs from 2 record: needs restart\n  disk 'extra' is added\n"},
		{"memory and vCPUs", []string{edit.Replace(of.vm), of.vmi, of.hardware}, "\n1 template differs from 2 record: needs restart\n" +
			"  the memory changes from '1 GiB' to '2 GiB'\n  the number of CPUs changes from '1' to '2'\n" +
			"  the CPU topology changes from '4 sockets, 1 cores, 1 threads' to '8 sockets, 1 cores, 1 threads'\n" +
			"  the NUMA nodes change from 'CPUs 0-3 with 1 GiB' to 'CPUs 0-7 with 2 GiB'\n"},
		{"memory of a stopped VM", []string{edit.Replace(of.vm), of.hardware}, "\n1 template differs from 2 record in something that a record does not contain: " +
			"memory, vCPUs, the CPU model or settings of devices\n"},
		{"a paused start", []string{paused.vm, paused.vmi, paused.hardware}, "\n1 template differs from 2 record: needs restart\n" +
			"  what the firmware boots changes: the boot menu is removed, as the guest does not start paused\n"},
		{"a paused start that has not booted yet", []string{of.vm, paused.vmi, strings.Replace(of.hardware, "of-the-vmi", "an-earlier-one", 1)},
			"\n3 vmi differs from 2 record: needs restart\n  what the firmware boots changes: a boot menu is added, as the guest starts paused\n"},
	} {
		flags := new(apiServer).serve(t, c.objects...)
		got := call(t, "", append([]string{"states", "vm/web"}, flags...)...)
		_, below, _ := strings.Cut(got.out, "\n5 snapshots")
		if _, below, _ = strings.Cut(below, "\n"); got.err != nil || below != c.want {
			t.Errorf("%s: %v %s\nwant%s\ngot\n%s", c.why, got.err, got.errOut, c.want, got.out)
		}
		if len(c.objects) < 3 {
			continue
		}
		if by := call(t, "", append([]string{"states", "vmi/web"}, flags...)...); by.err != nil || by.out != got.out {
			t.Errorf("%s, by the VMI: %v %s\n%s", c.why, by.err, by.errOut, by.out)
		}
	}
	alone := strings.Replace(of.vmi, "kind: VirtualMachine\n    name", "kind: Other\n    name", 1)
	got := call(t, "", append([]string{"states", "vmi/web"}, new(apiServer).serve(t, alone)...)...)
	if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), "does not belong to a VirtualMachine") {
		t.Errorf("of a bare VMI: %v", got.err)
	}
}

// TestPinnedCPUOfAVMI: beside KubeVirt, admission has written the recorded CPU into a VMI. 'states' finds the record in it, and 'explain' says where it comes
// from.
func TestPinnedCPUOfAVMI(t *testing.T) {
	t.Parallel()
	of := boots(t, nil)
	vmi, hardware := &v1.VirtualMachineInstance{}, &v1alpha1.GuestHardware{}
	for text, object := range map[string]any{of.vmi: vmi, of.hardware: hardware} {
		if err := yaml.Unmarshal([]byte(text), object); err != nil {
			t.Fatal(err)
		}
	}
	made, errs := render.KubeVirtOn(vmi, hardware.Spec.Hardware, &v1alpha1.ReportedCPU{Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm"}})
	if len(errs) > 0 || made.CPU == nil {
		t.Fatal(errs, made.CPU)
	}
	hardware.Spec.Hardware.CPU, hardware.Spec.Hardware.SchemaVersion = made.CPU, made.SchemaVersion
	hardware.Status.LastBoot = nil // KubeVirt's guests have none
	record.PinCPU(vmi, made.CPU, false)
	if vmi.Spec.Domain.CPU.Model != "EPYC" {
		t.Fatalf("not pinned: %+v", vmi.Spec.Domain.CPU)
	}
	var texts [2]string
	for i, object := range []any{vmi, hardware} {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	flags := append(new(apiServer).serve(t, of.vm, texts[0], texts[1]), "--runtime", "kubevirt")
	got := call(t, "", append([]string{"states", "vm/web"}, flags...)...)
	if got.err != nil || strings.Contains(got.out, "CPU changes") || !strings.Contains(got.out, "3 vmi") {
		t.Errorf("states: %v %s\n%s", got.err, got.errOut, got.out)
	}
	got = call(t, "", append([]string{"explain", "vmi/web"}, flags...)...)
	if got.err != nil || strings.Contains(got.out, "elsewhere") {
		t.Errorf("explain: %v %s\n%s", got.err, got.errOut, got.out)
	}
	for _, field := range []string{`model: "EPYC"`, `name: "avx2"`, `name: "svm"`, `policy: "require"`} {
		found := false
		for line := range strings.Lines(got.out) {
			found = found || strings.Contains(line, field) && strings.HasSuffix(line, "record (GuestHardware web)\n")
		}
		if !found {
			t.Errorf("%s is not the record's in\n%s", field, got.out)
		}
	}
}

// TestExplainOfAnUntouchedVMI: nothing of it is from elsewhere, and a PCI address that it does not have is not explained. What the record gave it has its name.
func TestExplainOfAnUntouchedVMI(t *testing.T) {
	t.Parallel()
	const uuid = "5d307ca9-b3ef-428c-8861-06e72d69f223"
	of := boots(t, func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.Firmware.UUID = uuid })
	got := call(t, "", append([]string{"explain", "vmi/web"}, new(apiServer).serve(t, of.vm, of.vmi, of.hardware)...)...)
	if got.err != nil || strings.Contains(got.out, "elsewhere") || strings.Contains(got.out, "pciAddress") {
		t.Errorf("%v %s\n%s", got.err, got.errOut, got.out)
	}
	for line := range strings.Lines(got.out) {
		if strings.Contains(line, uuid) && strings.HasSuffix(line, "record (GuestHardware web)\n") {
			return
		}
	}
	t.Errorf("no record in\n%s", got.out)
}
