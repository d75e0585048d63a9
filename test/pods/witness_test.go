package pods

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	v1 "kubevirt.io/api/core/v1"
)

// witness sees from the beginning to the end of a test which pods each VMI of a namespace has, how each VMI ends, and which guests run on this machine. All
// nodes are processes of this machine.
type witness struct {
	*tenant

	mutex sync.Mutex
	// pods are the UIDs of a VMI's pods, by the UID of the VMI.
	pods map[types.UID]map[types.UID]bool
	// ends are phase and reason of VMIs that have ended, by their UIDs.
	ends map[types.UID]string
	// most is how many processes of a guest were seen at one time, by the guest's UUID.
	most    map[string]int
	samples int
}

// samplePeriod is shorter than any start of a guest: libvirt and firmware take longer.
const samplePeriod = 100 * time.Millisecond

// newWitness returns one that looks until the test ends, and fails the test if a VMI has had two pods, or two processes of one guest have run.
func newWitness(n *tenant) *witness {
	n.Helper()
	w := &witness{tenant: n, pods: map[types.UID]map[types.UID]bool{}, ends: map[types.UID]string{}, most: map[string]int{}}
	client := admin(n)
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.Context()))
	var all sync.WaitGroup
	for kind, see := range map[schema.GroupVersionResource]func(*unstructured.Unstructured){podKind: w.pod, vmiKind: w.vmi} {
		all.Go(func() { w.watch(ctx, client.Resource(kind).Namespace(n.namespace), see) })
	}
	all.Go(func() { w.sample(ctx) })
	n.Cleanup(func() {
		cancel()
		all.Wait()
		w.judge()
	})
	return w
}

// watch sees each object at first and whenever it changes. A watch that ends begins anew.
func (w *witness) watch(ctx context.Context, objects dynamic.ResourceInterface, see func(*unstructured.Unstructured)) {
	for ctx.Err() == nil {
		watcher, err := objects.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			time.Sleep(samplePeriod)
			continue
		}
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				see(object)
			}
		}
	}
}

func (w *witness) pod(pod *unstructured.Unstructured) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != v1.VirtualMachineInstanceGroupVersionKind.Kind {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.pods[owner.UID] == nil {
		w.pods[owner.UID] = map[types.UID]bool{}
	}
	w.pods[owner.UID][pod.GetUID()] = true
}

func (w *witness) vmi(object *unstructured.Unstructured) {
	var vmi v1.VirtualMachineInstance
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &vmi); err != nil || !vmi.IsFinal() {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.ends[vmi.UID] = string(vmi.Status.Phase)
	for _, c := range vmi.Status.Conditions {
		if c.Type == v1.VirtualMachineInstanceReady {
			w.ends[vmi.UID] += " " + c.Reason
		}
	}
}

func (w *witness) sample(ctx context.Context) {
	for ctx.Err() == nil {
		now := w.guests()
		w.mutex.Lock()
		w.samples++
		for uuid, pids := range now {
			w.most[uuid] = max(w.most[uuid], len(pids))
		}
		w.mutex.Unlock()
		time.Sleep(samplePeriod)
	}
}

// judge tells what must never be.
func (w *witness) judge() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if len(w.pods) == 0 || len(w.most) == 0 {
		w.Errorf("the witness has seen the pods of %d VMIs, and %d guests", len(w.pods), len(w.most))
	}
	for vmi, pods := range w.pods {
		if len(pods) > 1 {
			w.Errorf("VMI %s had the pods %v", vmi, slices.Collect(maps.Keys(pods)))
		}
	}
	for uuid, most := range w.most {
		if most > 1 {
			w.Errorf("%d processes of the guest %s ran at the same time", most, uuid)
		}
	}
	w.Logf("the witness has seen %d VMIs with one pod each, and %d guests, never two of one in %d looks", len(w.pods), len(w.most), w.samples)
}

// end waits for the end of a VMI, which its successor may have replaced since.
func (w *witness) end(vmi types.UID, wants ...string) {
	w.Helper()
	end := ""
	w.eventually("VMI "+string(vmi)+" ends", func() (string, bool) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		end = w.ends[vmi]
		return "it has not", end != ""
	})
	if !slices.Contains(wants, end) {
		w.Errorf("VMI %s has ended as '%s', want %v", vmi, end, wants)
	}
}

// guests returns the processes of QEMU on this machine by the UUIDs of their guests. The namespace is the tenant's.
func (n *tenant) guests() map[string][]int {
	found := map[string][]int{}
	commands(func(pid int, args []string) {
		at := slices.Index(args, "-uuid")
		if programs[filepath.Base(args[0])] == qemu && strings.HasPrefix(guestOfQEMU(args), n.namespace+"_") && at >= 0 && at+1 < len(args) {
			found[args[at+1]] = append(found[args[at+1]], pid)
		}
	})
	return found
}

// process returns the only process of a VM's guest, 0 if it does not exist.
func (n *tenant) process(vm string) int {
	n.Helper()
	uuid := strings.TrimSpace(n.kubectl("get", "guesthardware", vm, "-o", "jsonpath={.spec.hardware.uuid}"))
	pids := n.guests()[uuid]
	if uuid == "" || len(pids) > 1 {
		n.Fatalf("guest %s has UUID '%s', and the processes %v", vm, uuid, pids)
	}
	if len(pids) == 0 {
		return 0
	}
	return pids[0]
}
