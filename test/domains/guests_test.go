package domains

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// read decodes all YAML documents of files.
func read(t *testing.T, files ...string) (objects []*unstructured.Unstructured) {
	t.Helper()
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
	c, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{DeveloperConfiguration: &v1.DeveloperConfiguration{FeatureGates: []string{"HostDisk",
		"HostDevices", "Sidecar"}}})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return c
}

// expand reviews a VM or VMI and returns the explicit VMI.
func expand(t *testing.T, object *unstructured.Unstructured, resolver resolve.Resolver) (*v1.VirtualMachineInstance, error) {
	t.Helper()
	vm, vmi, err := typed(object)
	if err != nil {
		t.Fatal(err)
	}
	reviewer := review.Reviewer{Resolver: resolver, Configuration: func() config.Cluster { return cluster(t) }}
	if vm != nil {
		reviewed, err := reviewer.ReviewVM(t.Context(), vm, nil, review.Asker{})
		return reviewed.Explicit, errors.Join(err, failed(reviewed.Verdict))
	}
	reviewed, err := reviewer.ReviewVMI(t.Context(), vmi, review.Asker{})
	return reviewed.Explicit, errors.Join(err, failed(reviewed.Verdict))
}

// identified is an explicit VMI that admission accepts, with its identity.
func identified(t *testing.T, vmi *v1.VirtualMachineInstance, c config.Cluster) *v1.VirtualMachineInstance {
	t.Helper()
	in := admit.Input{Cluster: c}
	explicit, verdict := admit.VMI(vmi, in)
	verdict.Errors = append(verdict.Errors, admit.Judge(explicit, in).Errors...)
	if err := failed(verdict); err != nil {
		t.Fatal(err)
	}
	identity.Fill(explicit, vmi.Name)
	return explicit
}

// failed is nil for a verdict that allows: a nil aggregate in an error would not be.
func failed(verdict admit.Verdict) error {
	if verdict.Allowed() {
		return nil
	}
	return verdict.Errors.ToAggregate()
}

// define renders a VMI, checks it against libvirt's schema, has it defined and compares what libvirt made of it.
func define(t *testing.T, d *libvirt.Daemon, vmi *v1.VirtualMachineInstance) error {
	t.Helper()
	vmi = vmi.DeepCopy()
	identity.Fill(vmi, vmi.Namespace+"/"+vmi.Name)
	host := backend.Assumed(vmi.Spec.Architecture)
	host.VirtTypes = []string{"qemu"} // this machine may have no KVM, and has it for its own architecture only
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(vmi)})
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

// plain is a VM of one disk and one interface that leaves everything to its instancetype and preference.
func plain(name string) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace = name, "default"
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default",
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "example/image:1"}}}}
	return vmi
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

func addRevisions(s *runtime.Scheme) error { return appsv1.AddToScheme(s) }

func bytesOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }

// typed is the VM or VMI that an object is.
func typed(object *unstructured.Unstructured) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
	if object.GetKind() == v1.VirtualMachineGroupVersionKind.Kind {
		vm := &v1.VirtualMachine{}
		return vm, nil, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, vm)
	}
	vmi := &v1.VirtualMachineInstance{}
	return nil, vmi, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, vmi)
}
