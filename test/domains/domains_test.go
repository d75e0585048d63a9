// Package domains takes every example manifest and every catalog object through all stages, and each rendered domain to a real
// libvirt.
package domains

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/samples"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// counts is what happened to each VMI.
type counts struct{ rendered, mirroring, refused int }

// refusals are the VMIs that are refused, each with its reason.
var refusals = map[string]string{
	"vm-cirros-clarge":          setsMemory,
	"vm-cirros-clarge-virtio":   setsMemory,
	"vm-cirros-clarge-windows":  setsMemory,
	"vm-cirros-cluster-csmall":  setsMemory,
	"vm-cirros-csmall":          setsMemory,
	"vm-windows-clarge-windows": setsMemory,
	"samples-arm64":             "needs hardware virtualization", // an arm64 guest has the host's own CPU, and this test emulates
}

// setsMemory: these examples name an instancetype and give memory as well; KubeVirt refuses them alike.
const setsMemory = "memory.guest: Invalid value: \"128Mi\": conflicts with"

func TestEveryExample(t *testing.T) {
	d := libvirt.Start(t)
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) { everyExample(t, d, set) })
	}
}

func everyExample(t *testing.T, d *libvirt.Daemon, set samples.Set) {
	all := read(t, set.Examples(t)...)
	resolver := resolve.Resolver{Cached: objects.New(scheme(t), all...)}
	var n counts
	other := map[string]int{}
	for _, object := range all {
		if kind := object.GetKind(); kind != "VirtualMachine" && kind != "VirtualMachineInstance" {
			other[kind]++
			continue
		}
		explicit, err := expand(t, object, resolver)
		if err == nil {
			err = define(t, d, explicit)
		}
		if err != nil {
			n.refused++
			if reason := refusals[object.GetName()]; reason == "" || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s %s is refused: %v", object.GetKind(), object.GetName(), err)
			}
			continue
		}
		n.rendered++
	}
	t.Logf("examples: %d objects, %d guests rendered, schema-valid and defined by libvirt, %d refused, other kinds: %v", len(all), n.rendered, n.refused, other)
	if least := map[bool]int{true: 28, false: 14}[set.Published()]; n.rendered < least {
		t.Errorf("only %d guests were rendered", n.rendered)
	}
}

// unrendered are instancetypes that no host without their hardware can serve, with what the error must say.
var unrendered = map[string]string{
	"'host-passthrough'": "arm64 guests have the host's own CPU, and this test emulates",
}

func TestEveryCatalogObject(t *testing.T) {
	d := libvirt.Start(t)
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) { everyCatalogObject(t, d, set) })
	}
}

func everyCatalogObject(t *testing.T, d *libvirt.Daemon, set samples.Set) {
	sizes := sources(t, set.Path("catalog", "cluster-instancetypes.yaml"))
	preferences := sources(t, set.Path("catalog", "cluster-preferences.yaml"))
	var n counts
	reasons := map[string]int{}
	run := func(name string, set instancetype.Set) {
		explicit, verdict := admit.VMI(plain(name), admit.Input{Set: set, Cluster: cluster(t)})
		verdict.Errors = append(verdict.Errors, admit.Judge(explicit, admit.Input{Cluster: cluster(t)}).Errors...)
		err := failed(verdict)
		if err == nil {
			err = define(t, d, explicit)
		}
		if err == nil {
			n.rendered++
			if cpu := explicit.Spec.Domain.CPU; cpu.NUMA != nil {
				n.mirroring++
			}
			return
		}
		n.refused++
		for key, reason := range unrendered {
			if strings.Contains(err.Error(), key) {
				reasons[reason]++
				return
			}
		}
		t.Errorf("%s: %v", name, err)
	}
	for _, raw := range sizes {
		size, err := instancetype.ReadInstancetype("", raw)
		if err != nil {
			t.Fatal(err)
		}
		run("size-"+size.Name, instancetype.Set{Instancetype: size})
	}
	big := bigSize(t, sizes)
	for _, raw := range preferences {
		preference, err := instancetype.ReadPreference("", raw)
		if err != nil {
			t.Fatal(err)
		}
		run("preference-"+preference.Name, instancetype.Set{Instancetype: big, Preference: preference})
	}
	t.Logf("catalog: %d sizes, %d preferences: %d rendered, schema-valid and defined by libvirt, "+
		"%d of them mirror NUMA nodes of the assumed host (two of 288 CPUs), %d refused: %v",
		len(sizes), len(preferences), n.rendered, n.mirroring, n.refused, reasons)
	want := has[set.Published()]
	if n.mirroring != want.mirroring {
		t.Errorf("the catalog has %d sizes that mirror NUMA nodes, %d were defined", want.mirroring, n.mirroring)
	}
	if len(sizes) != want.sizes || len(preferences) != want.preferences {
		t.Errorf("the catalog has %d sizes and %d preferences, read %d and %d", want.sizes, want.preferences, len(sizes), len(preferences))
	}
}

// has is what a catalog holds, published or ours, so that one that is read in part is seen.
var has = map[bool]struct{ sizes, preferences, mirroring int }{
	true:  {65, 57, 20},
	false: {15, 16, 2},
}

// bigSize satisfies every preference's requirements.
func bigSize(t *testing.T, sizes [][]byte) *instancetype.Instancetype {
	t.Helper()
	for _, raw := range sizes {
		size, err := instancetype.ReadInstancetype("", raw)
		if err != nil {
			t.Fatal(err)
		}
		if size.Name == "u1.2xlarge" || size.Name == "samples.wide" {
			return size
		}
	}
	t.Fatal("the catalog has none of the sizes that satisfy every preference")
	return nil
}

// The harness must see a mistake of the kind that it is for.
func TestDoubledAddressIsRefused(t *testing.T) {
	d := libvirt.Start(t)
	vmi := plain("doubled")
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: cluster(t)})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	guest := int64(128 << 20)
	explicit.Spec.Domain.Memory = &v1.Memory{Guest: bytesOf(guest)}
	identity.Fill(explicit, "doubled")
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	rendered, errs := render.Domain(render.Machine{VMI: explicit, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(explicit)})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	dom := *rendered.Documents.Domain
	devices := *dom.Devices
	devices.RNGs = slices.Clone(devices.RNGs)
	devices.Interfaces = append(slices.Clone(devices.Interfaces), devices.Interfaces[0])
	twin := &devices.Interfaces[len(devices.Interfaces)-1]
	twin.Alias = &libvirtxml.DomainAlias{Name: "ua-twin"}
	dom.Devices = &devices
	xml, err := dom.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Define(xml); err == nil {
		t.Error("libvirt defined a domain with two devices at one PCI address: it proves nothing")
	} else if !strings.Contains(err.Error(), "double use of PCI Address") {
		t.Errorf("refused for another reason: %v", err)
	}
}
