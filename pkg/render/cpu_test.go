package render

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// hostCPU is what libvirt says of host-model on a host.
var hostCPU = v1alpha1.ReportedCPU{Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "pcommit", "sse2"}, DisabledFeatures: []string{"xsavec"}}

// cpuOwner is a VMI with host-model that boots again and again.
type cpuOwner struct {
	*testing.T
	vmi  *v1.VirtualMachineInstance
	host backend.Capabilities
}

func newCPUOwner(t *testing.T) *cpuOwner {
	t.Helper()
	o := &cpuOwner{t, growing(t, nil), backend.Assumed("amd64")}
	o.vmi.Spec.Domain.CPU.Model = v1.CPUModeHostModel
	o.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": hostCPU}
	return o
}

func (o *cpuOwner) boot(frozen *record.Record) Result {
	o.Helper()
	made, errs := Domain(Machine{VMI: o.vmi, Defaults: config.Default().Frontend, Frozen: frozen, Host: o.host, Bindings: backend.AssumedBindings(o.vmi)})
	if len(errs) > 0 {
		o.Fatal(errs.ToAggregate())
	}
	if err := record.Check(&made.Record); err != nil {
		o.Fatal(err)
	}
	return made
}

// TestFirstBootRecordsCPU: the first boot asks for the CPU that host-model means on its host, and later boots ask for the same on any host.
func TestFirstBootRecordsCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	first := o.boot(nil)
	want := &record.CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: hostCPU.Features, DisabledFeatures: hostCPU.DisabledFeatures,
		Topology: record.Topology{Sockets: 8, Cores: 1, Threads: 1}}
	if diff := cmp.Diff(want, first.Record.CPU); diff != "" || first.Record.SchemaVersion != 4 {
		t.Errorf("schemaVersion %d (-want +got):\n%s", first.Record.SchemaVersion, diff)
	}
	o.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": {Model: "Skylake-Server", Vendor: "Intel"}}
	for _, host := range []map[string]v1alpha1.ReportedCPU{o.host.CPUs, nil} {
		o.host.CPUs = host
		if diff := cmp.Diff(first.Frontend.CPU, o.boot(&first.Record).Frontend.CPU); diff != "" {
			t.Errorf("the second boot has another CPU (-first +second):\n%s", diff)
		}
	}
	if check := o.boot(&first.Record).Documents.Domain.CPU.Check; check != "partial" {
		t.Errorf("libvirt checks '%s' before the CPU is verified", check)
	}
}

// TestUnknownCPU: without a report of libvirt host-model stays host-model, and no CPU is recorded.
func TestUnknownCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	o.host.CPUs = nil
	made := o.boot(nil)
	if made.Frontend.CPU.Mode != "host-model" || made.Record.CPU != nil {
		t.Errorf("mode '%s', record %+v", made.Frontend.CPU.Mode, made.Record.CPU)
	}
}

// TestFirstSeenCPU: the CPU of a guest whose record is older than recorded CPUs is recorded at the next boot, and marked; a model of the spec needs no mark.
func TestFirstSeenCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	old := o.boot(nil).Record
	old.CPU, old.BIOS, old.SchemaVersion = nil, nil, 0
	seen := o.boot(&old).Record
	if seen.CPU == nil || !seen.CPU.FirstSeen || seen.SchemaVersion != 2 {
		t.Fatalf("%+v with schemaVersion %d", seen.CPU, seen.SchemaVersion)
	}
	if again := o.boot(&seen).Record; !again.CPU.FirstSeen {
		t.Error("the mark is lost at the next boot")
	}
	o.vmi.Spec.Domain.CPU.Model = "qemu64"
	if named := o.boot(&old).Record.CPU; named == nil || named.FirstSeen || named.Model != "qemu64" {
		t.Errorf("%+v", named)
	}
}

// TestForgottenCPU: a forgotten CPU is replaced by the CPU of the next boot that knows one, once, and all else stays. The CPU is not marked as first seen,
// because the guest's earlier CPU was known.
func TestForgottenCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	first := o.boot(nil).Record
	forgotten := ForgetCPU(&first)
	if err := record.Check(forgotten); err != nil || len(record.Compare(first, *forgotten)) > 0 || first.CPU.Requested != "host-model" {
		t.Fatalf("%v: %+v, and before %+v", err, forgotten.CPU, first.CPU)
	}
	o.host.CPUs = nil // a boot on a host whose libvirt reports no CPU changes nothing
	unknown := o.boot(forgotten).Record
	o.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": {Model: "Skylake-Server", Vendor: "Intel", Features: []string{"md-clear"}}}
	for _, frozen := range []*record.Record{forgotten, &unknown} {
		made := o.boot(frozen).Record
		if made.CPU == nil || made.CPU.Model != "Skylake-Server" || made.CPU.FirstSeen || made.CPU.Verified {
			t.Errorf("%+v", made.CPU)
		}
		changes := record.Compare(first, made)
		if len(changes) != 1 || changes[0].Part != record.PartCPU {
			t.Errorf("more than the CPU changes: %+v", changes)
		}
		o.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": hostCPU}
		if changes := record.Compare(made, o.boot(&made).Record); len(changes) > 0 {
			t.Errorf("the boot after it changes %+v", changes)
		}
		o.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": {Model: "Skylake-Server", Vendor: "Intel", Features: []string{"md-clear"}}}
	}
}

// TestOwnerChangesCPU: another model in the spec is another CPU, and so are features of the spec.
func TestOwnerChangesCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	first := o.boot(nil).Record
	verified := first.DeepCopy()
	verified.CPU.Verified = true
	o.vmi.Spec.Domain.CPU.Features = []v1.CPUFeature{{Name: "avx2", Policy: "disable"}, {Name: "sse2", Policy: "optional"}, {Name: "hle"}}
	edited := o.boot(verified)
	if cpu := edited.Record.CPU; slices.Contains(cpu.Features, "avx2") || !slices.Contains(cpu.Features, "hle") || !slices.Contains(cpu.Features, "sse2") ||
		!slices.Contains(cpu.DisabledFeatures, "avx2") || cpu.Verified || edited.Documents.Domain.CPU.Check != "full" {
		t.Errorf("%+v, check '%s'", cpu, edited.Documents.Domain.CPU.Check)
	}
	o.vmi.Spec.Domain.CPU.Features, o.vmi.Spec.Domain.CPU.Model = nil, "Nehalem"
	if cpu := o.boot(verified).Record.CPU; cpu.Model != "Nehalem" || cpu.Requested != "Nehalem" || len(cpu.Features) > 0 || cpu.Verified {
		t.Errorf("%+v", cpu)
	}
}

// TestPassthroughIsSeen: with host-passthrough the record has the CPU of the last host, and a comparison says what another host changes.
func TestPassthroughIsSeen(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	o.vmi.Spec.Domain.CPU.Model = v1.CPUModeHostPassthrough
	first := o.boot(nil)
	if first.Frontend.CPU.Mode != "host-passthrough" || first.Record.CPU == nil || first.Record.CPU.Model != "EPYC" {
		t.Fatalf("mode '%s', record %+v", first.Frontend.CPU.Mode, first.Record.CPU)
	}
	o.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": {Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "hle"}, DisabledFeatures: []string{"xsavec"}}}
	changes := record.Compare(first.Record, o.boot(&first.Record).Record)
	if len(changes) != 1 || changes[0].Text != "the CPU changes: without pcommit, sse2, with hle" || changes[0].Verdict != record.Breaks {
		t.Errorf("%+v", changes)
	}
}

// TestPhysicalBitsStay: the recorded width of addresses stays if the memory shrinks, and grows if the memory needs it.
func TestPhysicalBitsStay(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	setMemory := func(guest string) {
		size := resource.MustParse(guest)
		o.vmi.Spec.Domain.Memory = &v1.Memory{Guest: &size, MaxGuest: &size}
	}
	setMemory("2Ti")
	large := o.boot(nil).Record
	setMemory("2Gi")
	small := o.boot(&large)
	if large.CPU.PhysicalBits != 46 || small.Record.CPU.PhysicalBits != 46 || small.Frontend.CPU.MaxPhysAddr == nil {
		t.Errorf("%d bits, and later %d", large.CPU.PhysicalBits, small.Record.CPU.PhysicalBits)
	}
	setMemory("100Ti")
	if bits := o.boot(&large).Record.CPU.PhysicalBits; bits != 47 {
		t.Errorf("%d bits, want 47", bits)
	}
}

// TestVerifyCPU: only a running CPU that equals the recorded one verifies it, and a report that no libvirt writes has no effect.
func TestVerifyCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	first := o.boot(nil)
	if !VerifiesCPU(first.Frontend) {
		t.Error("the CPU of a first boot need not be verified")
	}
	running := hostCPU
	verified, difference := VerifyCPU(&first.Record, &running)
	if verified == nil || !verified.CPU.Verified || difference != "" || first.Record.CPU.Verified {
		t.Fatalf("%+v: %s", verified, difference)
	}
	if later := o.boot(verified); VerifiesCPU(later.Frontend) || !later.Record.CPU.Verified || later.Record.Digest != first.Record.Digest {
		t.Errorf("%+v", later.Record.CPU)
	}
	running.Features = []string{"avx2", "sse2"}
	if verified, difference := VerifyCPU(&first.Record, &running); verified != nil || difference != "without pcommit" {
		t.Errorf("%v: '%s'", verified, difference)
	}
	running.Features = []string{"sse2", "avx2"}
	if verified, difference := VerifyCPU(&first.Record, &running); verified != nil || difference != "" {
		t.Errorf("a forged report: %v, '%s'", verified, difference)
	}
	if verified, _ := VerifyCPU(&first.Record, nil); verified != nil {
		t.Error("no report verifies the CPU")
	}
}

// TestReportedCPU: what a launcher reports of its host comes back, and a forged report is refused with its path.
func TestReportedCPU(t *testing.T) {
	t.Parallel()
	o := newCPUOwner(t)
	report := Report(o.vmi, Facts(Machine{VMI: o.vmi, Host: o.host}))
	facts, err := ReadFacts(o.vmi, report)
	if diff := cmp.Diff(&hostCPU, facts.CPU); diff != "" || err != nil {
		t.Errorf("%v (-host +read):\n%s", err, diff)
	}
	report.CPU.Features[0] = "x'/><feature policy='require' name='y"
	if _, err := ReadFacts(o.vmi, report); err == nil || len(err.Error()) > 500 {
		t.Errorf("forged features: %v", err)
	}
	if o.host.CPUs["amd64"].Features[0] != "avx2" {
		t.Error("a report shares memory with the facts of the host")
	}
}
