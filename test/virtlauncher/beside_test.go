package virtlauncher

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/virtlauncher/images"
)

// kiln is what is installed beside KubeVirt; nil while KubeVirt is alone.
var kiln *Kiln

// both runs the same test with KubeVirt alone, which only 'make nightly' does, and with Kiln beside it. It begins with what the last test has left, because
// installing and removing Kiln takes half a minute.
func both(t *testing.T, drive func(space)) {
	require(t)
	ways := []string{"alone", "beside"}
	if kiln != nil {
		ways = []string{"beside", "alone"}
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			if way == "alone" {
				nightly.Only(t)
				removeKiln(t)
			} else {
				installKiln(t)
			}
			drive(newSpace(t))
		})
	}
}

// installKiln installs Kiln without the hook, unless it is installed.
func installKiln(t *testing.T) {
	t.Helper()
	if kiln != nil {
		return
	}
	made := &Kiln{Root: "../..", Dir: filepath.Join(installed.Dir, "first"), Version: "first"}
	if err := made.Install(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
	kiln = made
}

// removeKiln removes Kiln, if it is installed.
func removeKiln(t *testing.T) {
	t.Helper()
	if kiln == nil {
		return
	}
	if err := kiln.Remove(context.WithoutCancel(t.Context()), shared); err != nil {
		t.Fatal(err)
	}
	kiln = nil
}

// treated waits until Kiln's controller has pinned a VM, and checks that the VMI has the pins if it was made beside Kiln. Without Kiln it checks that neither
// has pins. The pod has only KubeVirt's containers in any case.
func (g space) treated(name string, made bool) {
	g.Helper()
	vmi := g.vmi(name)
	if others := g.images(vmi); len(others) > 0 {
		g.Errorf("the pod has containers of the images %v besides KubeVirt's", others)
	}
	var vm v1.VirtualMachine
	g.eventually("Kiln has pinned "+name, func() (bool, any) {
		vm = g.vm(name)
		pinned := vm.Annotations[v1alpha1.AnnotationPins] != "" && vm.Annotations[v1alpha1.AnnotationIdentity] != ""
		return pinned || kiln == nil, vm.Annotations
	})
	want := ""
	if made {
		want = vm.Annotations[v1alpha1.AnnotationPins]
	}
	if (vm.Annotations[v1alpha1.AnnotationPins] != "") != (kiln != nil) || vmi.Annotations[v1alpha1.AnnotationPins] != want {
		g.Errorf("the VM has the annotations %v, its VMI %v", vm.Annotations, vmi.Annotations)
	}
}

// images returns the images that the pod of a guest has besides KubeVirt's and the guest's own.
func (g space) images(vmi v1.VirtualMachineInstance) []string {
	g.Helper()
	all := strings.Fields(g.kubectl("get", g.pod(vmi), "-o", "jsonpath={.spec.initContainers[*].image} {.spec.containers[*].image}"))
	if !slices.Contains(all, images.Name("virt-launcher")) {
		g.Errorf("the pod has only the images %v", all)
	}
	return slices.DeleteFunc(all, func(image string) bool {
		return image == images.Name("virt-launcher") || strings.HasPrefix(image, "registry.example/guest-")
	})
}
