package vmipod

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRightsOfALauncher: what a launcher may do, and who is its account.
func TestRightsOfALauncher(t *testing.T) {
	for why, c := range map[string]struct {
		account string
		own     bool
	}{"an account of its own": {podKey.Name, true}, "the account of a volume": {"shop", false}} {
		vmi := explicitVMI()
		if !c.own {
			vmi.Spec.Volumes = []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{ServiceAccount: &v1.ServiceAccountVolumeSource{ServiceAccountName: "shop"}}}}
			vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "token", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
		}
		on := newCluster(t, vmi, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}})
		on.reconcileAll()
		role, binding := read(on, podKey, &rbacv1.Role{}), read(on, podKey, &rbacv1.RoleBinding{})
		if role == nil || binding == nil || on.pod() == nil || on.pod().Spec.ServiceAccountName != c.account {
			t.Fatalf("%s: Role %v, RoleBinding %v, pod %v", why, role, binding, on.pod())
		}
		want := []rbacv1.PolicyRule{
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachineinstances"}, ResourceNames: []string{"a"}, Verbs: []string{"get"}},
			{APIGroups: []string{"kilnvm.io"}, Resources: []string{"guestpods"}, ResourceNames: []string{"a"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"kilnvm.io"}, Resources: []string{"guestpods/status"}, ResourceNames: []string{"a"}, Verbs: []string{"patch"}},
		}
		if diff := cmp.Diff(want, role.Rules); diff != "" {
			t.Errorf("%s: -want +got\n%s", why, diff)
		}
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Name: c.account, Namespace: "team"}}, binding.Subjects); diff != "" {
			t.Errorf("%s: -want +got\n%s", why, diff)
		}
		if made := read(on, podKey, &corev1.ServiceAccount{}) != nil; made != c.own {
			t.Errorf("%s: an account is made: %t", why, made)
		}
		for _, object := range []client.Object{role, binding, on.pod()} {
			if !observed.IsOwnedBy(object, on.vmi()) {
				t.Errorf("%s: %T belongs to %v", why, object, object.GetOwnerReferences())
			}
		}
	}
}

// TestNeedsOfPredecessors: objects of an earlier VMI of the name are replaced.
func TestNeedsOfPredecessors(t *testing.T) {
	earlier := explicitVMI()
	earlier.UID = "0000-earlier"
	objects := accountObjects(earlier)
	for _, object := range objects {
		object.SetUID("1111-" + earlier.UID)
	}
	on := newCluster(t, append(objects, explicitVMI())...)
	on.reconcileAll()
	for _, object := range []client.Object{read(on, podKey, &rbacv1.Role{}), read(on, podKey, &rbacv1.RoleBinding{}), read(on, podKey, &corev1.ServiceAccount{})} {
		if !observed.IsOwnedBy(object, on.vmi()) {
			t.Errorf("%T belongs to %v", object, object.GetOwnerReferences())
		}
	}
	if on.pod() == nil {
		t.Error("there is no pod")
	}
}

// TestInputOfAPod: what the controller reads for a pod: its claims, the quotas of its namespace, the record of an earlier boot, the configuration.
func TestInputOfAPod(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	claim := func(name string, spec corev1.PersistentVolumeClaimSpec) client.Object {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: spec}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Gi"), corev1.ResourceRequestsCPU: resource.MustParse("1")}}}
	elsewhere := quota.DeepCopy()
	elsewhere.Namespace, elsewhere.Spec.Hard = "other", corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse("1")}
	hardware := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
		Spec:   v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &v1alpha1.HardwareRecord{Machine: "pc-q35-9.2"}},
		Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "vm"}}
	vmi := explicitVMI()
	vmi.Spec.Volumes = []v1.Volume{
		{Name: "block", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "block"}}}},
		{Name: "file", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "file"}}},
		{Name: "read", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "read"}}}},
		{Name: "later", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "later"}}},
	}
	shared := map[string]string{"tier": "shared"}
	on := newCluster(t, vmi, quota, elsewhere, hardware, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: shared}},
		claim("block", corev1.PersistentVolumeClaimSpec{VolumeMode: &block, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}),
		claim("file", corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}),
		claim("read", corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}}))
	on.controller.Configuration = func() config.Cluster {
		now := config.Default()
		now.Pods = config.Pods{Emulate: true, CPUAllocationRatio: 4, MemoryOvercommit: 150, OverheadRatio: 1.5, StateClass: "fast", PullPolicy: "Always",
			LimitedCPUs: &metav1.LabelSelector{MatchLabels: shared}}
		return now
	}
	in, err := on.controller.podInputs().Read(t.Context(), on.vmi())
	if err != nil {
		t.Fatal(err)
	}
	without := cmpopts.IgnoreFields(pod.Claim{}, "Info")
	if diff := cmp.Diff(map[string]pod.Claim{"block": {Block: true}, "file": {}, "read": {ReadOnly: true}}, in.Claims, without); diff != "" {
		t.Errorf("claims -want +got\n%s", diff)
	}
	if !slices.Equal(in.LimitsDemanded, []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}) {
		t.Errorf("limits of %v are demanded", in.LimitsDemanded)
	}
	if in.Record == nil || in.Record.Machine != "pc-q35-9.2" {
		t.Errorf("the record is %+v", in.Record)
	}
	want := pod.Settings{Image: "launcher:1", Network: pod.Passt, Emulate: true, CPUAllocationRatio: 4, MemoryOvercommit: 150, OverheadRatio: 1.5,
		StateClass: "fast", PullPolicy: "Always"}
	if diff := cmp.Diff(want, in.Settings); diff != "" {
		t.Errorf("settings -want +got\n%s", diff)
	}
	on.reconcileAll()
	on.expectRefusal("a claim does not exist yet", v1alpha1.ReasonFailedPvcNotFound, "later")
}

// TestCPUOfAPod: once a node reports its CPU, a pod selects the nodes with the recorded CPU of its guest. A record of another guest, one that is invalid, and
// reports about guests with KVM where guests run without it count for nothing.
func TestCPUOfAPod(t *testing.T) {
	reporting := node("reporting")
	reporting.Labels["cpu-feature.kilnvm.io/sse2"] = "true"
	hardware := func() *v1alpha1.GuestHardware {
		cpu := &v1alpha1.GuestCPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "pcommit"},
			Topology: v1alpha1.GuestCPUTopology{Sockets: 1, Cores: 1, Threads: 1}}
		return &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
			Spec:   v1alpha1.GuestHardwareSpec{Identity: "seed", Hardware: &v1alpha1.HardwareRecord{SchemaVersion: 2, Machine: "pc-q35-9.2", CPU: cpu}},
			Status: v1alpha1.GuestHardwareStatus{VirtualMachineUID: "vm"}}
	}
	recorded := map[string]string{"cpu-feature.kilnvm.io/avx2": "true", "cpu-feature.kilnvm.io/pcommit": "true", "cpu-vendor.kilnvm.io/AMD": "true"}
	for _, c := range []struct {
		why     string
		silent  bool
		emulate bool
		change  func(vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware)
		want    map[string]string
	}{
		{"its record", false, false, func(*v1.VirtualMachineInstance, *v1alpha1.GuestHardware) {}, recorded},
		{"no node reports", true, false, func(*v1.VirtualMachineInstance, *v1alpha1.GuestHardware) {}, nil},
		{"guests run without KVM", false, true, func(*v1.VirtualMachineInstance, *v1alpha1.GuestHardware) {}, nil},
		{"a record of another guest", false, false, func(_ *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) {
			hardware.Spec.Identity, hardware.Status.VirtualMachineUID = "other", "other"
		}, nil},
		{"a record that was restored for another guest", false, false, func(_ *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) {
			hardware.Spec.Identity, hardware.Status.VirtualMachineUID = "other", ""
		}, nil},
		{"an invalid record", false, false, func(_ *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) {
			hardware.Spec.Hardware.CPU.Features[0] = "a/b\n"
		}, nil},
		{"the first boot", false, false, func(_ *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) { hardware.Spec.Hardware = nil }, nil},
		{"hardware that is derived anew", false, false, func(vmi *v1.VirtualMachineInstance, _ *v1alpha1.GuestHardware) {
			vmi.Annotations[v1alpha1.AnnotationHardware] = v1alpha1.HardwareLatest
		}, nil},
		{"a named model", false, false, func(vmi *v1.VirtualMachineInstance, _ *v1alpha1.GuestHardware) { vmi.Spec.Domain.CPU.Model = "EPYC" },
			map[string]string{"cpu-model.kilnvm.io/EPYC": "true"}},
	} {
		vmi, found, also := explicitVMI(), hardware(), reporting.DeepCopy()
		c.change(vmi, found)
		vmi.Spec.NodeSelector = map[string]string{"zone": "a", "cpu-feature.kilnvm.io/avx2": "false"}
		if c.silent {
			also.Labels = nil
		}
		on := newCluster(t, vmi, found, also)
		on.controller.Configuration = func() config.Cluster {
			now := config.Default()
			now.Pods.Emulate = c.emulate
			return now
		}
		on.reconcileAll()
		if on.pod() == nil {
			t.Fatalf("%s: no pod: %+v", c.why, on.vmi().Status.Conditions)
		}
		want := map[string]string{corev1.LabelArchStable: "amd64", "zone": "a", "cpu-feature.kilnvm.io/avx2": "false", v1alpha1.LabelPasst: "true"}
		maps.Copy(want, c.want)
		if diff := cmp.Diff(want, on.pod().Spec.NodeSelector); diff != "" {
			t.Errorf("%s: node selector -want +got\n%s", c.why, diff)
		}
	}
}

// TestVolumeStatus: with the pod, the status gets what the launcher must know of claims: their sizes are the sizes of new disks.
func TestVolumeStatus(t *testing.T) {
	vmi := explicitVMI()
	vmi.Spec.Volumes = []v1.Volume{
		{Name: "root", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "file"}}},
		{Name: "none", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "disk:1"}}},
	}
	asked := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Mi")}
	has := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	on := newCluster(t, vmi, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "file"},
		Spec:   corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: asked}},
		Status: corev1.PersistentVolumeClaimStatus{Capacity: has}})
	on.reconcileAll()
	want := []v1.VolumeStatus{{Name: "root", PersistentVolumeClaimInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "file", AccessModes: modes, Capacity: has,
		Requests: asked}}}
	if got := on.vmi().Status.VolumeStatus; on.pod() == nil || !equality.Semantic.DeepEqual(want, got) {
		t.Errorf("the status has %+v", got)
	}
}

// TestBareVMI: a VMI without a VM gets the finalizer, and a MAC address by its UID. The record has the same MAC address.
func TestBareVMI(t *testing.T) {
	vmi := explicitVMI()
	vmi.OwnerReferences, vmi.Finalizers, vmi.Annotations = nil, nil, nil
	on := newCluster(t, vmi)
	on.runGuest()
	if !slices.Contains(on.vmi().Finalizers, v1.VirtualMachineInstanceFinalizer) || on.vmi().Status.Phase != v1.Running {
		t.Fatalf("finalizers %v, phase %s", on.vmi().Finalizers, on.vmi().Status.Phase)
	}
	recorded := read(on, key, &v1alpha1.GuestHardware{}).Spec.Hardware.MACs["default"]
	if got := on.vmi().Status.Interfaces[0].MAC; got == "" || got != recorded {
		t.Errorf("MAC '%s', recorded '%s'", got, recorded)
	}
}

// TestSlirp: a guest behind slirp has not the addresses of its pod.
func TestSlirp(t *testing.T) {
	on := newCluster(t, explicitVMI())
	on.controller.Settings.Network = pod.Slirp
	on.runGuest()
	if nic := on.vmi().Status.Interfaces[0]; nic.IP != "" || nic.MAC == "" {
		t.Errorf("the interface is %+v", nic)
	}
}

// TestVMIsOfBareMachines: a VMI that a launcher has claimed, before the runtime was changed, is left to it.
func TestVMIsOfBareMachines(t *testing.T) {
	vmi := explicitVMI()
	vmi.Status = v1.VirtualMachineInstanceStatus{Phase: v1.Running, NodeName: "bare"}
	on := newCluster(t, vmi)
	on.reconcileAll()
	on.must(on.WithWatch.Delete(t.Context(), on.vmi()))
	on.reconcileAll()
	if len(on.writes) > 0 || on.vmi() == nil {
		t.Errorf("the controller has written %q", on.writes)
	}
}

// TestHostPolicy: the launcher gets the HostProfiles of its VMI and node, merged; a contradiction is a refusal.
func TestHostPolicy(t *testing.T) {
	profile := func(name, zone string, priority int32, vnc string) client.Object {
		p := &v1alpha1.HostProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Priority, p.Spec.NodeSelector = priority, &metav1.LabelSelector{MatchLabels: map[string]string{"zone": zone}}
		p.Spec.PathTemplates = &v1alpha1.PathTemplates{VNC: vnc}
		return p
	}
	on := newCluster(t, explicitVMI(), profile("here", "n1", 0, "/a"), profile("there", "n2", 0, "/b"))
	on.runGuest()
	if policy := on.guestPod().Spec.HostPolicy; policy == nil || policy.PathTemplates.VNC != "/a" {
		t.Errorf("the policy is %+v", policy)
	}
	on = newCluster(t, explicitVMI(), profile("one", "n1", 0, "/a"), profile("two", "n1", 0, "/b"))
	on.reconcileAll()
	on.bindPod("n1")
	on.reconcileAll()
	on.expectRefusal("two profiles differ", v1alpha1.ReasonNotRenderable, "HostProfiles 'one' and 'two'")
	if on.guestPod() != nil {
		t.Error("there is a GuestPod without a policy")
	}
	on = newCluster(t, explicitVMI())
	on.reconcileAll()
	on.bindPod("n3")
	result := on.reconcileAll()
	on.expectRefusal("a node that was deleted", v1alpha1.ReasonNodeLost, "there is no node 'n3'")
	if on.guestPod() != nil || result.RequeueAfter < time.Second {
		t.Errorf("GuestPod %v, again after %s", on.guestPod(), result.RequeueAfter)
	}
}
