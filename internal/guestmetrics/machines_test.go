package guestmetrics

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stored returns a store as informers have it.
func stored[T client.Object](t testing.TB, objects ...T) toolscache.Store {
	t.Helper()
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for _, object := range objects {
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func vmOf(name string, status v1.VirtualMachinePrintableStatus, conditions ...v1.VirtualMachineCondition) *v1.VirtualMachine {
	return &v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("vm-" + name), CreationTimestamp: metav1.Unix(1000, 0)},
		Spec:       v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{}},
		Status:     v1.VirtualMachineStatus{PrintableStatus: status, Conditions: conditions},
	}
}

func changed(kind v1.VirtualMachineConditionType, at int64) v1.VirtualMachineCondition {
	return v1.VirtualMachineCondition{Type: kind, LastTransitionTime: metav1.Time{Time: time.Unix(at, 0)}}
}

// TestMachines: what KubeVirt's dashboards read of VMs and VMIs. Texts of tenants and guests are bounded, and names of their instancetypes are left out.
func TestMachines(t *testing.T) {
	web := vmOf("web", v1.VirtualMachineStatusRunning, changed(v1.VirtualMachineReady, 2000), changed("RestartRequired", 3000))
	web.Spec.Instancetype, web.Spec.Preference = &v1.InstancetypeMatcher{Name: "u1.small"}, &v1.PreferenceMatcher{Name: "own"}
	web.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "u1.small", ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "r"}}
	web.Status.PreferenceRef = &v1.InstancetypeStatusRef{Name: "own", Kind: instancetype.PreferenceKinds.Namespaced,
		ControllerRevisionRef: &v1.ControllerRevisionRef{Name: "r"}}
	web.Spec.Template.ObjectMeta.Annotations = map[string]string{"vm.kubevirt.io/os": strings.Repeat("x", 200_000) + "\n", "vm.kubevirt.io/flavor": "tiny"}
	lost := vmOf("lost", "ErrorOfLater\n")
	lost.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "a-name-of-a-tenant"}
	lost.Status.InstancetypeRef = &v1.InstancetypeStatusRef{Name: "a-name-of-a-tenant"}
	halted := vmOf("halted", "", changed(v1.VirtualMachineReady, 4000))
	vmi := guestOf("team", "web")
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(web, v1.VirtualMachineGroupVersionKind)}
	memory := resource.MustParse("1Gi")
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vmi.Status.Machine = &v1.Machine{Type: "pc-q35-9.2"}
	vmi.Status.GuestOSInfo = v1.VirtualMachineInstanceGuestOSInfo{Name: "Debian\x1b", KernelRelease: strings.Repeat("k", 1000), VersionID: "13", Machine: "x86_64"}
	vmi.Status.ActivePods = map[types.UID]string{"pod": "node-1"}
	alone := guestOf("team", "halted") // not the VM's of this name
	alone.Annotations = map[string]string{v1.InstancetypeAnnotation: "mine"}
	alone.Status.Phase = v1.VmPhaseUnset

	m := &Machines{}
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("a replica that does not lead has %d series", n)
	}
	m.stores.Store(&machineStores{stored(t, web, lost, halted), stored(t, vmi, alone)})
	series, err := os.ReadFile("testdata/machines.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(string(series), strings.Repeat("x", longestLabel), strings.Repeat("k", longestLabel))
	names := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(want)) {
		name, _, _ := strings.Cut(line, "{")
		names[name] = true
	}
	var text strings.Builder
	facts, _ := Facts()
	for _, fact := range facts {
		if names[fact.Name] {
			fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", fact.Name, fact.Help, fact.Name, fact.Type)
			for line := range strings.Lines(want) {
				if strings.HasPrefix(line, fact.Name+"{") {
					text.WriteString(line)
				}
			}
		}
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	if err := testutil.CollectAndCompare(m, strings.NewReader(text.String()), list...); err != nil {
		t.Error(err)
	}
}

// BenchmarkMachines is one scrape of 10,000 VMs that run.
func BenchmarkMachines(b *testing.B) {
	var vms []*v1.VirtualMachine
	var vmis []*v1.VirtualMachineInstance
	for i := range 10_000 {
		vm := vmOf(fmt.Sprint("vm-", i), v1.VirtualMachineStatusRunning, changed(v1.VirtualMachineReady, 2000))
		vmi := guestOf("team", vm.Name)
		vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
		vms, vmis = append(vms, vm), append(vmis, vmi)
	}
	m := &Machines{}
	m.stores.Store(&machineStores{stored(b, vms...), stored(b, vmis...)})
	for b.Loop() {
		if n := testutil.CollectAndCount(m); n < 100_000 {
			b.Fatal(n)
		}
	}
}
