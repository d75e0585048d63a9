package tutorials

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
)

// namespaces have VMs.
var namespaces = []string{"shop", "web", "lab"}

// Instancetype and preference of each namespace.
const (
	small = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: small}, " +
		"spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}"
	virtio = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachinePreference, metadata: {name: virtio}, " +
		"spec: {devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio}}}"
)

// kinds are VMs that KubeVirt takes and Kiln has no rule against, and a VMI.
var kinds = []string{
	vm("Halted", "", "memory: {guest: 1Gi}, ", ""),
	vm("Always", "", "memory: {guest: 1Gi}, ", "terminationGracePeriodSeconds: 0, "),
	vm("Always", "instancetype: {kind: VirtualMachineInstancetype, name: small}, preference: {kind: VirtualMachinePreference, name: virtio}, ", "", ""),
	vm("Halted", "instancetype: {kind: VirtualMachineInstancetype, name: small}, ", "", ""),
	"{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {}, spec: {" + guestOf("memory: {guest: 1Gi}, ") + "}}",
}

// mistakes are VMs of the page that KubeVirt takes and Kiln refuses, by namespace and name. The first one runs.
var mistakes = map[string]string{
	"shop/till":  vm("Always", "", "memory: {guest: 1Gi}, ", "terminationGracePeriodSeconds: -1, "),
	"shop/stock": vm("Halted", "", "memory: {guest: 2048}, ", ""),
	"lab/render": vm("Halted", "", "memory: {guest: 1Gi}, ", "nodeSelector: {rack: rack 7}, "),
}

// vm returns a VM without a name, with further fields of its spec, of its domain and of the spec of its template.
func vm(strategy, spec, memory, fields string) string {
	return "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {}, spec: {runStrategy: " + strategy + ", " + spec +
		"template: {metadata: {}, spec: {" + fields + guestOf(memory) + "}}}}"
}

// guestOf returns the spec of a guest. Its memory may be empty.
func guestOf(memory string) string {
	return "domain: {" + memory + `devices: {disks: [{name: root, disk: {}}], interfaces: [{name: default, masquerade: {}}]}},
 networks: [{name: default, pod: {}}], volumes: [{name: root, containerDisk: {image: 'registry.example/guest:1'}}]`
}

// object reads an object from YAML, and gives it a name.
func object(text, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(text), &object.Object)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object, err
}

// makeVMs makes the namespaces and VMs, and waits until every second VM runs.
func (u *operator) makeVMs(count int) {
	u.Helper()
	began := time.Now()
	create := func(text, namespace, name string) error {
		object, err := object(text, namespace, name)
		if err == nil {
			_, err = u.on.Create(u.Context(), object)
		}
		return err
	}
	for _, namespace := range namespaces {
		if err := u.on.MakeNamespace(u.Context(), namespace); err != nil {
			u.Fatal(err)
		}
		for name, text := range map[string]string{"small": small, "virtio": virtio} {
			if err := create(text, namespace, name); err != nil {
				u.Fatal(err)
			}
		}
	}
	group := errgroup.Group{}
	group.SetLimit(8)
	for place, text := range mistakes {
		namespace, name, _ := strings.Cut(place, "/")
		group.Go(func() error { return create(text, namespace, name) })
	}
	machines := kinds[:4] // of which every second one runs
	for i := range count - len(mistakes) {
		group.Go(func() error {
			return create(machines[[]int{0, 1, 3, 2}[i%4]], namespaces[i%len(namespaces)], fmt.Sprintf("vm%03d", i))
		})
	}
	if err := group.Wait(); err != nil {
		u.Fatal(err)
	}
	states, running := map[string]int{}, (count-len(mistakes))/2+1
	if !poll.Until(10*time.Minute, func() bool {
		states = u.states()
		return states["Running"] == running && states["Stopped"] == count-running
	}) {
		u.Fatalf("the VMs are %v", states)
	}
	u.Logf("VMs by their status, after %s: %v", time.Since(began).Round(time.Second), states)
}

// states counts VMs by their status.
func (u *operator) states() map[string]int {
	u.Helper()
	states := map[string]int{}
	for _, namespace := range namespaces {
		list, err := u.on.List(u.Context(), cluster.In{Namespace: namespace, Kind: "vm"}, "")
		if err != nil {
			u.Fatal(err)
		}
		for _, item := range list.Items {
			state, _, _ := unstructured.NestedString(item.Object, "status", "printableStatus")
			states[state]++
		}
	}
	return states
}
