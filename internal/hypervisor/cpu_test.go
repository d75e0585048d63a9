package hypervisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// hostModelGuest starts a guest with host-model as a record wants it, paused, on a real libvirt.
type hostModelGuest struct {
	*testing.T
	daemon *libvirt.Daemon
	l      *Libvirt
	vmi    *v1.VirtualMachineInstance
	host   backend.Capabilities
}

func newHostModelGuest(t *testing.T) *hostModelGuest {
	t.Helper()
	daemon := libvirt.Start(t)
	g := &hostModelGuest{T: t, daemon: daemon, l: connected(t, daemon), vmi: explicit.Plain(t, "model")}
	g.vmi.Spec.Domain.CPU.Model = v1.CPUModeHostModel
	headless := false
	g.vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &headless
	var err error
	if g.host, err = g.l.Capabilities(t.Context(), "here", KVMNever); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *hostModelGuest) start(frozen *record.Record) (render.Result, error) {
	g.Helper()
	bindings := backend.AssumedBindings(g.vmi)
	bindings.Serial, bindings.VNC, bindings.SerialLog = "", "", ""
	made, errs := render.Domain(render.Machine{VMI: g.vmi, Defaults: config.Default().Frontend, Host: g.host, Bindings: bindings, Frozen: frozen})
	if len(errs) > 0 {
		g.Fatal(errs.ToAggregate())
	}
	guest := guestOf(g.vmi, made.Documents, nil)
	guest.Paused = true
	return made, g.l.Start(g.Context(), guest)
}

func (g *hostModelGuest) runningCPU() *v1alpha1.ReportedCPU {
	g.Helper()
	cpu, err := g.l.RunningCPU(g.Context(), ownerOf(g.vmi))
	if err != nil || cpu == nil {
		g.Fatalf("%v, %v", cpu, err)
	}
	return cpu
}

func (g *hostModelGuest) end() {
	g.Helper()
	if err := g.l.Remove(g.Context(), ownerOf(g.vmi)); err != nil {
		g.Fatal(err)
	}
}

// TestRecordedCPU: the CPU that is recorded before the first boot is the CPU that libvirt runs. Once it is verified, libvirt runs it at later boots even if
// host-model has another meaning by then, and a feature that QEMU no longer has ends the start with its name.
func TestRecordedCPU(t *testing.T) {
	t.Parallel()
	g := newHostModelGuest(t)
	host, known := g.host.CPUs["amd64"]
	if !known || !slices.Contains(host.Features, "sse2") || !slices.Contains(host.Features, "lm") {
		t.Fatalf("the CPU of host-model is %+v", host)
	}
	first, err := g.start(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(host, *g.runningCPU()); diff != "" {
		t.Errorf("libvirt runs another CPU than the recorded one (-recorded +running):\n%s", diff)
	}
	verified, difference := render.VerifyCPU(&first.Record, g.runningCPU())
	if verified == nil {
		t.Fatalf("the CPU is not verified: %s", difference)
	}
	if again, difference := render.VerifyCPU(verified, g.runningCPU()); again != nil || difference != "" {
		t.Errorf("a verified CPU is verified again: %s", difference)
	}
	g.end()

	weaker := host
	weaker.Features = slices.DeleteFunc(slices.Clone(host.Features), func(name string) bool { return name == "rdrand" || name == "popcnt" })
	g.host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": weaker}
	later, err := g.start(verified)
	if err != nil {
		t.Fatal(err)
	}
	if check := later.Documents.Domain.CPU.Check; check != "full" {
		t.Errorf("check is '%s', want full", check)
	}
	if diff := cmp.Diff(host, *g.runningCPU()); diff != "" {
		t.Errorf("the CPU of the later boot differs (-first +later):\n%s", diff)
	}
	if later.Record.Digest != first.Record.Digest || !later.Record.CPU.Verified {
		t.Errorf("the later record has digest %s and CPU %+v, want digest %s", later.Record.Digest, later.Record.CPU, first.Record.Digest)
	}
	g.end()

	forged := verified.DeepCopy()
	forged.CPU.Features = append(forged.CPU.Features, "avx512f", "hle")
	slices.Sort(forged.CPU.Features)
	if _, err := g.start(forged); err == nil || !strings.Contains(err.Error(), "missing features: hle,avx512f") {
		t.Errorf("start with features that QEMU does not have: %v", err)
	}
}

// TestOwnersFeatures: features of spec.domain.cpu.features win over the recorded CPU, and libvirt runs the guest with them.
func TestOwnersFeatures(t *testing.T) {
	t.Parallel()
	g := newHostModelGuest(t)
	g.vmi.Spec.Domain.CPU.Features = []v1.CPUFeature{{Name: "popcnt", Policy: "disable"}, {Name: "avx", Policy: "optional"}, {Name: "ssse3"}}
	made, err := g.start(nil)
	if err != nil {
		t.Fatal(err)
	}
	running := g.runningCPU()
	if slices.Contains(running.Features, "popcnt") || !slices.Contains(running.Features, "avx") || !slices.Contains(running.Features, "ssse3") {
		t.Errorf("the guest has %v", running.Features)
	}
	if verified, difference := render.VerifyCPU(&made.Record, running); verified == nil {
		t.Errorf("not verified: %s", difference)
	}
}

// TestOfferedCPUs: the host offers the CPU that guests with host-model get, and the models of which QEMU lacks no feature.
func TestOfferedCPUs(t *testing.T) {
	t.Parallel()
	g := newHostModelGuest(t)
	offered, err := g.l.OfferedCPUs(t.Context(), KVMNever)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g.host.CPUs["amd64"], *offered.HostModel); diff != "" || !offered.Emulated {
		t.Errorf("emulated %t, host-model differs:\n%s", offered.Emulated, diff)
	}
	// QEMU emulates all of Nehalem, and no AVX-512.
	if !slices.Contains(offered.Models, "Nehalem") || slices.Contains(offered.Models, "Skylake-Server") || !slices.IsSorted(offered.Models) {
		t.Errorf("the models are %v", offered.Models)
	}
}

// TestUsableModels: a model that only MPX keeps from being usable counts, because guests of named models do without MPX.
func TestUsableModels(t *testing.T) {
	t.Parallel()
	var caps libvirtxml.DomainCaps
	if err := caps.Unmarshal(`<domainCapabilities><cpu><mode name='host-model' supported='yes'><model fallback='forbid'>EPYC</model></mode>
<mode name='custom' supported='yes'><model usable='yes' deprecated='yes'>b</model><model usable='no'>c</model><model usable='no' canonical='d-v1'>d</model>
<model usable='yes' canonical='b'>a</model><model usable='unknown'>e</model>
<blockers model='c'><feature name='mpx'/></blockers><blockers model='d'><feature name='hle'/><feature name='mpx'/></blockers></mode></cpu>
</domainCapabilities>`); err != nil {
		t.Fatal(err)
	}
	if got := usableModels(caps.CPU); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
}
