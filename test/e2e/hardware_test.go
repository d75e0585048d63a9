package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/poll"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// TestHardwareStays boots one VM again and again: after devices came and went, and after edits of all that it was made from and of its
// circumstances. What the guest reports of its hardware must be the same, byte for byte, and what the frontend document says. At
// the end it asks for everything anew, which shows that each edit would have been seen.
func TestHardwareStays(t *testing.T) {
	t.Parallel()
	h := newHardware(t)
	h.added()
	h.staysAfter("the removal of devices, a host profile, an edited size, an edited preset, an edited configuration, or all of them", func() {
		h.apply(furnished(h.machine), hardwareProfile, otherSize, otherPreset)
		h.configure()
	})
	h.profiled()
	h.anew()
}

// TestHardwareStaysAfterEach boots the VM after each edit of TestHardwareStays alone. A boot takes 10 s of CPU time.
func TestHardwareStaysAfterEach(t *testing.T) {
	nightly.Only(t)
	t.Parallel()
	h := newHardware(t)
	h.staysAfter("a restart", func() {})
	h.added()
	h.staysAfter("their removal", func() { h.apply(furnished(h.machine)) })
	h.staysAfter("another host profile", func() { h.apply(hardwareProfile) })
	h.profiled()
	h.staysAfter("an edited size", func() { h.apply(otherSize) })
	h.staysAfter("an edited preset", func() { h.apply(otherPreset) })
	h.staysAfter("an edited configuration", h.configure)
}

// newHardware starts the VM in a cluster of its own.
func newHardware(t *testing.T) *hardware {
	t.Helper()
	a := newAloneWith(t, hardwareConfiguration)
	s := newSpaceOn(t, a.Cluster)
	bridge := addBridge(t)
	m := s.startMachineWith(func(n *cluster.Node) { n.Bridge = bridge })
	s.apply(hardwareSize, hardwarePreset, furnished(m))
	h := &hardware{space: s, machine: m}
	h.first = h.report("the first start")
	h.record = h.verified()
	return h
}

// verified returns the record once it says that the guest runs with the recorded CPU.
func (h *hardware) verified() (now record.Record) {
	h.Helper()
	if !poll.Until(time.Minute, func() bool {
		now = h.recorded("demo")
		return now.CPU != nil && now.CPU.Verified
	}) {
		h.Fatalf("the CPU is not verified: %+v", now.CPU)
	}
	return now
}

// profiled: the profile has reached libvirt.
func (h *hardware) profiled() {
	h.Helper()
	if xml, err := h.ActiveXML(h.space.name + "_demo"); err != nil || strings.Count(xml, "cache='writethrough'") != 6 {
		h.Errorf("libvirt runs the guest without what the profile says: %v\n%s", err, xml)
	}
}

// hardware is what the guest of a test had at its first start.
type hardware struct {
	space
	machine
	first  string
	record record.Record
	vmi    *unstructured.Unstructured // that runs
}

func (s space) apply(manifests ...string) {
	s.Helper()
	for _, manifest := range manifests {
		s.must(s.kubectl(manifest, "apply", "-f", "-"))
	}
}

// report waits for what the guest says after a start, and holds it against the document.
func (h *hardware) report(why string) string {
	h.Helper()
	vmi, report := h.boot(h.machine)
	h.vmi = vmi
	text := report.Text()
	if diff := cmp.Diff(guest.Described(h.document()), guest.Says(text)); diff != "" {
		h.Errorf("after %s the guest sees what the document does not say (-document +guest):\n%s", why, diff)
	}
	return text
}

// restart replaces the VMI by a new one, whose guest reports.
func (h *hardware) restart(why string) string {
	h.Helper()
	was := string(h.vmi.GetUID())
	if now := string(h.get("vmi", "demo").GetUID()); now != was {
		h.Errorf("%s replaced the VMI that runs", why)
	}
	h.space.restart("demo")
	return h.report(why)
}

func (h *hardware) staysAfter(why string, edit func()) {
	h.Helper()
	edit()
	if diff := cmp.Diff(lines(h.first), lines(h.restart(why))); diff != "" {
		h.Errorf("%s changes the guest's hardware (-first start +now):\n%s", why, diff)
	}
	if now := h.recorded("demo"); now.Digest != h.record.Digest {
		h.Errorf("%s changes the recorded frontend from %s to %s", why, h.record.Digest, now.Digest)
	} else if changes := record.Compare(h.record, now); len(changes) > 0 || !now.CPU.Verified || now.BootDisk == "" {
		h.Errorf("%s changes the record, whose CPU is %+v, and whose boot disk is '%s': %+v", why, now.CPU, now.BootDisk, changes)
	}
}

// document is the frontend that follows from the VMI and its record.
func (h *hardware) document() *libvirtxml.Domain {
	h.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(h.vmi.Object, vmi); err != nil {
		h.Fatal(err)
	}
	configuration, _, err := clusterconfig.Parse([]byte(h.on.Configuration))
	if err != nil {
		h.Fatal(err)
	}
	record := h.recorded("demo")
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: configuration.Frontend, Frozen: &record,
		Host: backend.Assumed(vmi.Spec.Architecture), Bindings: backend.AssumedBindings(vmi)})
	if len(errs) > 0 {
		h.Fatal(errs.ToAggregate())
	}
	if digest := abi.Digest(rendered.Frontend); digest != record.Digest {
		h.Errorf("the VMI has a frontend of digest %s, its record says %s", digest, record.Digest)
	}
	return rendered.Frontend
}

// added boots the VM with more devices: those that were there do not change.
func (h *hardware) added() {
	h.Helper()
	h.apply(more(h.machine, furnished(h.machine)))
	text := h.restart("an added disk and network card")
	of := h.newcomers()
	if len(h.first) == len(of.others(h.first)) || len(text) == len(of.others(text)) {
		h.Error("nothing was added")
	}
	if diff := cmp.Diff(lines(of.others(h.first)), lines(of.others(text))); diff != "" {
		h.Errorf("added devices change others (-before +after):\n%s", diff)
	}
}

// newcomers are the devices of the running VMI that were not there at first.
type newcomers struct {
	// places of theirs, and of the empty ports that keep the number of these.
	places []string
	// ports that they have gone into.
	ports []string
}

func (h *hardware) newcomers() newcomers {
	h.Helper()
	now := h.recorded("demo")
	var of newcomers
	for _, key := range slices.Sorted(maps.Keys(now.Devices)) {
		if _, old := h.record.Devices[key]; old {
			continue
		}
		at := place(h.T, now, key)
		of.places = append(of.places, at)
		if port, _, behind := strings.Cut(at, "/"); behind {
			of.ports = append(of.ports, port)
		}
	}
	return of
}

// others are the lines of a text that are not about newcomers. A port that a disk has gone into does not offer to unplug it, which it
// says itself and in the ACPI table that lists ports.
func (of newcomers) others(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		about := strings.HasPrefix(line, "acpi DSDT=")
		for _, at := range of.places {
			about = about || strings.Contains(line, " "+at+" ") || strings.Contains(line, ":"+at+" ") || strings.HasPrefix(line, "namespace "+guest.Namespace(at))
		}
		for _, port := range of.ports {
			about = about || strings.HasPrefix(line, "pci "+port+" hotplug=") || strings.HasPrefix(line, "pci "+port+" slot=")
		}
		if !about {
			out.WriteString(line)
		}
	}
	return out.String()
}

func lines(text string) []string { return strings.Split(text, "\n") }
