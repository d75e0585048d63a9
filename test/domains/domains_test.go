// Package domains takes every example manifest and every catalog object through all stages, and each rendered domain to a real
// libvirt.
package domains

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pipeline"
	"github.com/kilnvm/kiln/test/libvirt"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// shared is the folder with published manifests. Users do not have it.
func shared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KILN_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	if _, err := os.Stat(filepath.Join(dir, "catalog")); err != nil {
		t.Skip("no published manifests here: set KILN_SHARED to a folder with catalog/ and examples/")
	}
	return dir
}

// read decodes all YAML documents of the files that match.
func read(t *testing.T, pattern string) (objects []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); err != nil {
				break // the end; a file that cannot be read leaves too few objects, which the counts show
			}
			if object.GetKind() == "" {
				continue
			}
			if object.GetNamespace() == "" && !strings.HasPrefix(object.GetKind(), "VirtualMachineCluster") {
				object.SetNamespace("default")
			}
			objects = append(objects, object)
		}
	}
	return objects
}

// gates of a cluster that permits what the examples need.
func cluster(t *testing.T) config.Cluster {
	t.Helper()
	c, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{DeveloperConfiguration: &v1.DeveloperConfiguration{FeatureGates: []string{"HostDisk", "HostDevices", "Sidecar"}}})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return c
}

// counts is what happened to each guest.
type counts struct{ rendered, refused int }

// refusals are the guests that are refused, each for a reason that its user would accept.
var refusals = map[string]string{
	"vm-cirros-clarge":          setsMemory,
	"vm-cirros-clarge-virtio":   setsMemory,
	"vm-cirros-clarge-windows":  setsMemory,
	"vm-cirros-cluster-csmall":  setsMemory,
	"vm-cirros-csmall":          setsMemory,
	"vm-windows-clarge-windows": setsMemory,
}

// setsMemory: these examples name a size and give memory as well; KubeVirt refuses them alike.
const setsMemory = "memory.guest: Invalid value: \"128Mi\": conflicts with"

// expand makes the guest of a VM or VMI explicit and judges it.
func expand(t *testing.T, object *unstructured.Unstructured, resolver resolve.Resolver) (*v1.VirtualMachineInstance, error) {
	t.Helper()
	vm, vmi, err := resolve.Guest(object)
	if err != nil {
		t.Fatal(err)
	}
	in := pipeline.Input{Cluster: cluster(t)}
	if vm != nil {
		answer, err := resolver.VM(t.Context(), vm, nil)
		if err != nil {
			return nil, err
		}
		in.Set = answer.Set
		explicit, verdict := pipeline.ExplicitVM(vm, nil, in)
		return explicit, failed(verdict)
	}
	explicit, verdict := pipeline.ExplicitVMI(vmi, in)
	if verdict.Allowed() {
		verdict = pipeline.JudgeVMI(explicit, in)
	}
	return explicit, failed(verdict)
}

// failed is nil for a verdict that allows: a nil aggregate in an error would not be.
func failed(verdict pipeline.Verdict) error {
	if verdict.Allowed() {
		return nil
	}
	return verdict.Errors.ToAggregate()
}

// define renders a guest, checks it against libvirt's schema, has it defined and compares what libvirt made of it.
func define(t *testing.T, d *libvirt.Daemon, vmi *v1.VirtualMachineInstance) error {
	t.Helper()
	vmi = vmi.DeepCopy()
	pipeline.Identify(vmi, vmi.Namespace+"/"+vmi.Name)
	host := backend.Assumed(vmi.Spec.Architecture)
	host.VirtTypes = []string{"qemu"} // this machine may have no KVM, and has it for its own architecture only
	rendered, errs := pipeline.Render(pipeline.Machine{VMI: vmi, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(vmi)})
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	xml, err := rendered.Documents.Domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := libvirt.Validate(xml); err != nil {
		t.Errorf("%s does not follow libvirt's schema: %v\n%s", vmi.Name, err, xml)
		return nil
	}
	back, err := d.Define(xml)
	if err != nil {
		t.Errorf("libvirt refuses %s: %v\n%s", vmi.Name, err, xml)
		return nil
	}
	if err := d.Undefine(rendered.Documents.Domain.Name); err != nil {
		t.Error(err)
	}
	var read libvirtxml.Domain
	if err := read.Unmarshal(back); err != nil {
		t.Fatal(err)
	}
	// What an alias of the machine stands for, libvirt knows; everything else must read back as it was written.
	read.OS.Type.Machine = rendered.Documents.Domain.OS.Type.Machine
	if changes := abi.Changes(rendered.Documents.Domain, &read); len(changes) > 0 {
		t.Errorf("libvirt changed what the guest %s sees: %q", vmi.Name, changes)
	}
	return nil
}

func TestEveryExample(t *testing.T) {
	dir := shared(t)
	d := libvirt.Start(t)
	objects := read(t, filepath.Join(dir, "examples/*.yaml"))
	resolver := resolve.Resolver{Cached: resolve.NewFiles(scheme(t), objects...)}
	var n counts
	other := map[string]int{}
	for _, object := range objects {
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
	t.Logf("examples: %d objects, %d guests rendered, schema-valid and defined by libvirt, %d refused, other kinds: %v", len(objects), n.rendered, n.refused, other)
	if n.rendered < 28 {
		t.Errorf("only %d guests were rendered", n.rendered)
	}
}

// plain is a VM of one disk and one interface that leaves everything to its size and preference.
func plain(name string) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace = name, "default"
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "example/image:1"}}}}
	return vmi
}

// unrendered are sizes that no host without their hardware can be asked for, with what the error must say.
var unrendered = map[string]string{
	"guestMappingPassthrough": "NUMA cells that mirror the host's are not rendered yet",
	"'host-passthrough'":      "arm64 guests have the host's own CPU, and this test emulates",
}

func TestEveryCatalogObject(t *testing.T) {
	dir := shared(t)
	d := libvirt.Start(t)
	sizes := sources(t, filepath.Join(dir, "catalog/cluster-instancetypes.yaml"))
	preferences := sources(t, filepath.Join(dir, "catalog/cluster-preferences.yaml"))
	var n counts
	reasons := map[string]int{}
	run := func(name string, set instancetype.Set) {
		explicit, verdict := pipeline.ExplicitVMI(plain(name), pipeline.Input{Set: set, Cluster: cluster(t)})
		verdict.Errors = append(verdict.Errors, pipeline.JudgeVMI(explicit, pipeline.Input{Cluster: cluster(t)}).Errors...)
		err := failed(verdict)
		if err == nil {
			err = define(t, d, explicit)
		}
		if err == nil {
			n.rendered++
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
	t.Logf("catalog: %d sizes, %d preferences: %d rendered, schema-valid and defined by libvirt, %d refused: %v", len(sizes), len(preferences), n.rendered, n.refused, reasons)
	if len(sizes) != 65 || len(preferences) != 57 {
		t.Errorf("the published catalog has 65 sizes and 57 preferences, read %d and %d", len(sizes), len(preferences))
	}
}

// bigSize satisfies every preference's requirements.
func bigSize(t *testing.T, sizes [][]byte) *instancetype.Instancetype {
	t.Helper()
	for _, raw := range sizes {
		size, err := instancetype.ReadInstancetype("", raw)
		if err != nil {
			t.Fatal(err)
		}
		if size.Name == "u1.2xlarge" {
			return size
		}
	}
	t.Fatal("the catalog has no size u1.2xlarge")
	return nil
}

// sources are the JSON documents of a catalog file.
func sources(t *testing.T, file string) (raws [][]byte) {
	t.Helper()
	for _, object := range read(t, file) {
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, raw)
	}
	return raws
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := addRevisions(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The harness must see a mistake of the kind that it is for.
func TestDoubledAddressIsRefused(t *testing.T) {
	d := libvirt.Start(t)
	vmi := plain("doubled")
	explicit, verdict := pipeline.ExplicitVMI(vmi, pipeline.Input{Cluster: cluster(t)})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	guest := int64(128 << 20)
	explicit.Spec.Domain.Memory = &v1.Memory{Guest: bytesOf(guest)}
	pipeline.Identify(explicit, "doubled")
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	rendered, errs := pipeline.Render(pipeline.Machine{VMI: explicit, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(explicit)})
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

func addRevisions(s *runtime.Scheme) error { return appsv1.AddToScheme(s) }

func bytesOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
