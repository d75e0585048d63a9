package observer

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// cluster is an Observer with its cluster.
type cluster struct {
	*testing.T
	client.Client
	*Observer
	settings config.Cluster
	// full counts the VMs that were read with their templates.
	full int
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, v1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{T: t, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), settings: config.Default()}
	c.Observer = New(Options{Cache: c.Client, Live: c.Client, Settings: pod.Settings{Image: "launcher:1"}, Reviewer: review.Reviewer{Stored: true,
		Resolver: resolve.Resolver{Cached: c.Client, Live: c.Client}, Configuration: func() config.Cluster { return c.settings }}})
	return c
}

func newVM(namespace, name, memory string) *v1.VirtualMachine {
	guest := resource.MustParse(memory)
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1}}
	vm.Spec.RunStrategy = new(v1.RunStrategyHalted)
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{Spec: v1.VirtualMachineInstanceSpec{Architecture: "amd64"}}
	vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
	vm.Spec.Template.Spec.Domain.Devices.AutoattachPodInterface = new(false)
	return vm
}

func newNode(name, memory string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse(memory),
				corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
				"devices.kubevirt.io/kvm": resource.MustParse("100")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

// judge judges a VM, and returns the reason.
func (c *cluster) judge(vm *v1.VirtualMachine, judged bool) string {
	c.Helper()
	verdict, _, err := c.Judge(c.Context(), VM{Key: client.ObjectKeyFromObject(vm), Of: vm, Judged: judged,
		Full: func(context.Context) (*v1.VirtualMachine, error) { c.full++; return vm, nil }})
	if err != nil {
		c.Fatal(err)
	}
	if verdict == nil {
		return ""
	}
	return verdict.Reason
}

// expectChanged checks which VMs are judged again.
func (c *cluster) expectChanged(why string, want ...string) {
	c.Helper()
	var got []string
	for _, key := range c.takeChanged(c.Context()) {
		got = append(got, key.Name)
	}
	if !slices.Equal(got, want) {
		c.Errorf("%s: %q are judged again, want %q", why, got, want)
	}
}

// TestHeartbeats: only a change of a node that may change a verdict has verdicts compared, and only VMs whose verdicts change are judged again.
func TestHeartbeats(t *testing.T) {
	node := newNode("a", "4Gi")
	c := newCluster(t, node)
	small, large := newVM("shop", "small", "512Mi"), newVM("shop", "large", "8Gi")
	if got := []string{c.judge(small, false), c.judge(large, false)}; !slices.Equal(got, []string{v1alpha1.ReasonNodeFits, v1alpha1.ReasonNoNodeLargeEnough}) {
		t.Fatal(got)
	}
	for i := range 100 {
		beat := node.DeepCopy()
		beat.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(int64(i), 0))
		beat.Annotations, beat.ResourceVersion = map[string]string{"beat": fmt.Sprint(i)}, fmt.Sprint(i)
		c.noteNode(node, beat)
		c.expectChanged("a heartbeat")
	}
	grown := node.DeepCopy()
	grown.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("16Gi")
	if err := c.Status().Update(t.Context(), grown); err != nil {
		t.Fatal(err)
	}
	c.noteNode(node, grown)
	c.expectChanged("the node grew", "large")
	c.judge(large, true)
	for why, change := range map[string]func(*corev1.Node){
		"cordoned":     func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"tainted":      func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} },
		"relabeled":    func(n *corev1.Node) { n.Labels = nil },
		"another QEMU": func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.AnnotationMachineTypes: "virt"} },
		"not ready":    func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown },
	} {
		changed := grown.DeepCopy()
		change(changed)
		c.noteNode(grown, changed)
		if !c.changed.nodes {
			t.Errorf("%s: nothing is compared", why)
		}
		c.changed = changes{}
	}
	if c.full != 2 {
		t.Errorf("%d VMs were read with their templates, want each once", c.full)
	}
}

// TestMachineTypes: a VM whose machine type no node has is judged again when a node reports that it has the type.
func TestMachineTypes(t *testing.T) {
	node := newNode("a", "4Gi")
	node.Annotations = map[string]string{v1alpha1.AnnotationMachineTypes: "pc-q35-9.2,q35"}
	c := newCluster(t, node)
	alias, newer := newVM("shop", "alias", "512Mi"), newVM("shop", "newer", "512Mi")
	newer.Spec.Template.Spec.Domain.Machine = &v1.Machine{Type: "pc-q35-10.0"}
	if got := []string{c.judge(alias, false), c.judge(newer, false)}; !slices.Equal(got, []string{v1alpha1.ReasonNodeFits, v1alpha1.ReasonNoNodeHasMachineType}) {
		t.Fatal(got)
	}
	upgraded := node.DeepCopy()
	upgraded.Annotations[v1alpha1.AnnotationMachineTypes] = "pc-q35-10.0,pc-q35-9.2,q35"
	if err := c.Update(t.Context(), upgraded); err != nil {
		t.Fatal(err)
	}
	c.noteNode(node, upgraded)
	c.expectChanged("another QEMU", "newer")
	if got := c.judge(newer, true); got != v1alpha1.ReasonNodeFits {
		t.Errorf("with the other QEMU: %s", got)
	}
}

// TestCPUs: a VM whose recorded CPU no node has is judged again when a node reports it, and when its record changes.
func TestCPUs(t *testing.T) {
	node := newNode("a", "4Gi")
	node.Labels["cpu-feature.kilnvm.io/sse2"] = "true"
	vm := newVM("shop", "web", "512Mi")
	topology := v1alpha1.GuestCPUTopology{Sockets: 1, Cores: 1, Threads: 1}
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: vm.UID},
		Spec: v1alpha1.GuestHardwareSpec{Hardware: &v1alpha1.HardwareRecord{SchemaVersion: 2, Machine: "pc-q35-9.2",
			CPU: &v1alpha1.GuestCPU{Requested: "host-model", Model: "EPYC", Features: []string{"pcommit", "sse2"}, Topology: topology}}}}
	c := newCluster(t, node, hardware)
	if got := []string{c.judge(vm, false), c.judge(newVM("shop", "other", "512Mi"), false)}; !slices.Equal(got,
		[]string{v1alpha1.ReasonNoNodeHasCPU, v1alpha1.ReasonNodeFits}) {
		t.Fatal(got)
	}
	if of := c.guests[client.ObjectKeyFromObject(vm)]; of.need == nil || of.need.size() < len("pcommit,sse2")+of.need.Pod.Size() {
		t.Errorf("the need is %+v", of.need)
	}
	upgraded := node.DeepCopy()
	upgraded.Labels["cpu-feature.kilnvm.io/pcommit"] = "true"
	if err := c.Update(t.Context(), upgraded); err != nil {
		t.Fatal(err)
	}
	c.noteNode(node, upgraded)
	c.expectChanged("another QEMU", "web")
	if got := c.judge(vm, true); got != v1alpha1.ReasonNodeFits {
		t.Errorf("with the other QEMU: %s", got)
	}
	replaced := hardware.DeepCopy()
	replaced.ResourceVersion = ""
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(hardware), replaced); err != nil {
		t.Fatal(err)
	}
	before := replaced.DeepCopy()
	replaced.Spec.Hardware.CPU.Features = []string{"hle"}
	if err := c.Update(t.Context(), replaced); err != nil {
		t.Fatal(err)
	}
	c.NoteHardware(before, before)
	c.expectChanged("nothing has changed")
	c.NoteHardware(before, replaced)
	c.expectChanged("another record", "web")
	if got := c.judge(vm, true); got != v1alpha1.ReasonNoNodeHasCPU {
		t.Errorf("with the other record: %s", got)
	}
	c.Forget(client.ObjectKeyFromObject(vm))
	c.NoteHardware(before, nil)
	c.expectChanged("a VM that runs")
}

// TestNamespaces: a quota and a Secret of one namespace do not concern another one.
func TestNamespaces(t *testing.T) {
	c := newCluster(t, newNode("a", "4Gi"))
	mine, other := newVM("shop", "mine", "512Mi"), newVM("other", "other", "512Mi")
	c.judge(mine, false)
	c.judge(other, false)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	if err := c.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	c.noteQuota(nil, quota)
	c.expectChanged("a quota", "mine")
	if got := c.judge(mine, true); got != v1alpha1.ReasonQuotaExceeded {
		t.Error(got)
	}
	used := quota.DeepCopy()
	used.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	c.noteQuota(quota, used)
	c.expectChanged("less is used, and the verdict is the same")
	if err := c.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	c.noteQuota(used, nil)
	c.expectChanged("the quota was deleted", "mine")
	c.Forget(client.ObjectKeyFromObject(mine))
	c.noteQuota(nil, quota)
	c.expectChanged("the VM was deleted")
}

// TestManyVMs: after a start of the process, VMs that have a verdict wait for their turn, while new ones do not. A change of a node costs no reads, and the VMs
// whose verdicts change are sent at a bounded rate.
func TestManyVMs(t *testing.T) {
	const vms = 3000
	c := newCluster(t, newNode("a", "4Gi"))
	for i := range vms {
		c.judge(newVM("shop", fmt.Sprint("old-", i), "512Mi"), true)
	}
	if c.full > 2*readBurst {
		t.Errorf("%d of %d VMs with a verdict were read at once", c.full, vms)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range vms {
		if got := c.judge(newVM("shop", fmt.Sprint("new-", i), "512Mi"), false); got != v1alpha1.ReasonNodeFits {
			t.Fatalf("a new VM: '%s'", got)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / vms
	t.Logf("a VM that does not run takes %d bytes", each)
	if each > 16<<10 {
		t.Errorf("a VM that does not run takes %d bytes", each)
	}
	if err := c.Delete(t.Context(), newNode("a", "4Gi")); err != nil {
		t.Fatal(err)
	}
	reads := c.full
	c.noteNode(newNode("a", "4Gi"), nil)
	begun := time.Now()
	changed := c.takeChanged(t.Context())
	t.Logf("verdicts on %d VMs were compared in %s", vms, time.Since(begun))
	if len(changed) < vms || c.full != reads {
		t.Errorf("%d VMs are judged again, %d were read", len(changed), c.full-reads)
	}
	c.noteNode(newNode("a", "4Gi"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	sent := 0
	if err := c.sendChanged(ctx, func(client.ObjectKey) { sent++ }); err != nil || sent > 3*changesPerSecond {
		t.Errorf("%d VMs were sent in 2 s: %v", sent, err)
	} else if sent == 0 {
		t.Error("no VM was sent")
	}
}

// TestLargeNeeds: a tenant who writes a large VM does not fill the memory. Such a VM is read each time.
func TestLargeNeeds(t *testing.T) {
	for why, change := range map[string]func(*v1.VirtualMachineInstanceSpec){
		"node selector": func(spec *v1.VirtualMachineInstanceSpec) {
			spec.NodeSelector = map[string]string{}
			for i := range 500 {
				spec.NodeSelector[fmt.Sprintf("%s.example.org/%d", strings.Repeat("x", 63), i)] = strings.Repeat("y", 63)
			}
		},
		"machine type": func(spec *v1.VirtualMachineInstanceSpec) {
			spec.Domain.Machine = &v1.Machine{Type: "pc-q35-" + strings.Repeat("x", 100<<10)}
		},
		"claims": func(spec *v1.VirtualMachineInstanceSpec) {
			for i := range 300 {
				name := fmt.Sprint("disk-", i)
				source := &v1.PersistentVolumeClaimVolumeSource{}
				source.ClaimName = strings.Repeat("x", 250) + fmt.Sprint(i)
				spec.Volumes = append(spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: source}})
				disk := v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusSCSI}}}
				spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, disk)
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			c := newCluster(t, newNode("a", "4Gi"))
			vm := newVM("shop", "large", "512Mi")
			change(&vm.Spec.Template.Spec)
			for range 2 {
				t.Log(c.judge(vm, false))
			}
			if of := c.guests[client.ObjectKeyFromObject(vm)]; of.need != nil || c.full != 2 {
				t.Errorf("it is remembered: %t, it was read %d times", of.need != nil, c.full)
			}
			c.noteNode(nil, newNode("b", "4Gi"))
			c.expectChanged("a node came", "large")
		})
	}
}

// TestEdits: a tenant who edits a VM all the time does not have this process read without an end.
func TestEdits(t *testing.T) {
	c := newCluster(t, newNode("a", "4Gi"))
	vm := newVM("shop", "web", "512Mi")
	for range 200 {
		vm.Generation++
		c.judge(vm, false)
	}
	if c.full > 3*vmReadBurst {
		t.Errorf("a VM that was edited 200 times was read %d times", c.full)
	}
	verdict, after, err := c.Judge(t.Context(), VM{Key: client.ObjectKeyFromObject(vm), Of: newVM("shop", "web", "1Gi")})
	if verdict != nil || after == 0 || err != nil {
		t.Errorf("it has verdict %v, and is judged after %s: %v", verdict, after, err)
	}
}

// TestTemplates: a claim that a dataVolumeTemplate is to make is awaited, and its StorageClass must exist.
func TestTemplates(t *testing.T) {
	c := newCluster(t, newNode("a", "4Gi"))
	vm := newVM("shop", "web", "512Mi")
	spec := &vm.Spec.Template.Spec
	spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "web-root"}}}}
	spec.Domain.Devices.Disks = []v1.Disk{{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}}}
	if got := c.judge(vm, false); got != v1alpha1.ReasonFailedPvcNotFound {
		t.Errorf("nothing makes the claim: %s", got)
	}
	vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "web-root"}}}
	vm.Spec.DataVolumeTemplates[0].Spec.PVC = &corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast"),
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
	vm.Spec.DataVolumeTemplates[0].Spec.Source = &cdi.DataVolumeSource{Blank: &cdi.DataVolumeBlankImage{}}
	vm.Generation++
	if got := c.judge(vm, true); got != v1alpha1.ReasonStorageClassNotFound {
		t.Errorf("no class: %s", got)
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	if err := c.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	c.NoteClass(nil, class)
	c.expectChanged("the class came", "web")
	if got := c.judge(vm, true); got != v1alpha1.ReasonClaimAwaited {
		t.Errorf("the claim is awaited: %s", got)
	}
}
