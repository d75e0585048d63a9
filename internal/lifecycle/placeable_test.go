package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/placeable/observer"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/slimmed"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// placementCluster is a testCluster whose controller judges placements. It counts reads past the cache, and writes of statuses.
type placementCluster struct {
	*testCluster
	reads, writes int
	// failing are the kinds of lists that the cache cannot read.
	failing func(client.ObjectList) error
}

func newPlacementCluster(t *testing.T, objects ...client.Object) *placementCluster {
	t.Helper()
	c := &placementCluster{testCluster: newCluster(t, append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}})...)}
	stored := c.Client.(client.WithWatch)
	count := func(to client.WithWatch, counter *int) client.WithWatch {
		return interceptor.NewClient(to, interceptor.Funcs{
			Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				*counter++
				return to.Get(ctx, key, object, options...)
			},
			SubResourcePatch: func(ctx context.Context, to client.Client, sub string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption) error {
				c.writes++
				return to.SubResource(sub).Patch(ctx, object, patch, options...)
			},
			Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
				// The tracker accepts the dry run of a create of an object that exists.
				if exists := object.DeepCopyObject().(client.Object); len(options) > 0 && to.Get(ctx, client.ObjectKeyFromObject(object), exists) == nil {
					return apierrors.NewAlreadyExists(corev1.Resource("objects"), object.GetName())
				}
				return to.Create(ctx, object, options...)
			},
			List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if c.failing != nil {
					if err := c.failing(list); err != nil {
						return err
					}
				}
				return to.List(ctx, list, options...)
			},
		})
	}
	var cached int
	cache := count(slimmed.Client(stored), &cached)
	c.controller.Client, c.controller.Live = cache, count(stored, &c.reads)
	cluster := config.Default()
	c.controller.Placement = observer.New(observer.Options{Cache: cache, Live: c.controller.Live, Settings: pod.Settings{Image: "launcher:1"},
		Reviewer: review.Reviewer{Resolver: resolve.Resolver{Cached: cache, Live: stored}, Stored: true,
			Configuration: func() config.Cluster { return cluster }}})
	return c
}

// plainVM is a VM that a pod can run.
func plainVM(s v1.VirtualMachineRunStrategy, changes ...func(*v1.VirtualMachineInstanceSpec)) *v1.VirtualMachine {
	vm := newVM(s)
	vm.Spec.Template.Spec = v1.VirtualMachineInstanceSpec{Architecture: "amd64"}
	memory := resource.MustParse("512Mi")
	vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vm.Spec.Template.Spec.Domain.Devices.AutoattachPodInterface = new(false)
	for _, change := range changes {
		change(&vm.Spec.Template.Spec)
	}
	return vm
}

func newNode(memory string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-" + strings.ToLower(memory), Labels: map[string]string{corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse(memory),
				corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
				"devices.kubevirt.io/kvm": resource.MustParse("100")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func onClaim(name string) func(*v1.VirtualMachineInstanceSpec) {
	return func(spec *v1.VirtualMachineInstanceSpec) {
		source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "root", VolumeSource: source})
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
	}
}

// expectPlaceable reconciles once, and checks the reason of condition Placeable.
func (c *placementCluster) expectPlaceable(why, want string) v1.VirtualMachineCondition {
	c.Helper()
	c.reconcileOnce()
	got := conditionOf(c.vm(), v1alpha1.ConditionPlaceable)
	if got.Reason != want {
		c.Errorf("%s: %+v, want %s", why, got, want)
	}
	return got
}

// TestPlaceable: the first reconcile of a VM says whether the cluster could run its guest, if somebody has asked for a start or not. The VM follows nodes.
func TestPlaceable(t *testing.T) {
	for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyHalted, v1.RunStrategyAlways, v1.RunStrategyManual} {
		c := newPlacementCluster(t, plainVM(strategy), newNode("256Mi"))
		got := c.expectPlaceable("a small node", v1alpha1.ReasonNoNodeLargeEnough)
		if got.Status != corev1.ConditionFalse || !strings.Contains(got.Message, "memory") {
			t.Errorf("%s: %+v", strategy, got)
		}
		if err := c.Create(t.Context(), newNode("8Gi")); err != nil {
			t.Fatal(err)
		}
		if got := c.expectPlaceable("a larger node came", v1alpha1.ReasonNodeFits); got.Status != corev1.ConditionTrue {
			t.Errorf("%s: %+v", strategy, got)
		}
	}
}

// TestPlaceableCosts: a VM that is as it was judged before costs neither reads past the cache nor writes, and a running guest is not judged.
func TestPlaceableCosts(t *testing.T) {
	c := newPlacementCluster(t, plainVM(v1.RunStrategyHalted), newNode("8Gi"))
	c.expectPlaceable("at first", v1alpha1.ReasonNodeFits)
	c.reconcileOnce() // the status has the observed generation now
	c.reads, c.writes = 0, 0
	for range 10 { // the reconciler of records reads by itself
		if _, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	if c.reads > 0 || c.writes > 0 {
		t.Errorf("10 reconciles of a judged VM: %d reads, %d writes", c.reads, c.writes)
	}
	c.setRunStrategy(v1.RunStrategyAlways)
	c.reconcileRepeatedly()
	c.setPhase(v1.Running)
	c.expectPlaceable("the guest runs", v1alpha1.ReasonGuestRuns)
	c.failing = func(client.ObjectList) error { return errors.New("nothing may be read") }
	c.expectPlaceable("the guest still runs", v1alpha1.ReasonGuestRuns)
}

// TestPlaceableObjects: a claim, a StorageClass and a Secret that come are noticed, by an event or at an interval.
func TestPlaceableObjects(t *testing.T) {
	withSecret := func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "key", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "key"}}})
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: "key", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
	}
	c := newPlacementCluster(t, plainVM(v1.RunStrategyHalted, onClaim("root"), withSecret), newNode("8Gi"))
	c.expectPlaceable("no claim", v1alpha1.ReasonFailedPvcNotFound)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "root"},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	if err := c.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	c.controller.Placement.NoteClaim(nil, claim)
	c.expectPlaceable("the claim waits for a class", v1alpha1.ReasonStorageClassNotFound)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.org/fast"}
	if err := c.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	c.controller.Placement.NoteClass(nil, class)
	c.expectPlaceable("no Secret", v1alpha1.ReasonReferenceNotFound)
	if result := c.reconcileOnce(); result.RequeueAfter == 0 || result.RequeueAfter > maxRecheck {
		t.Errorf("the Secret is looked for after %s", result.RequeueAfter)
	}
	if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "key"}}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Minute)
	c.expectPlaceable("the Secret is there", v1alpha1.ReasonNodeFits)
}

// TestPlaceableUnknown: what cannot be read is named, and the next reconcile reads again. A VM whose instancetype does not exist has no verdict.
func TestPlaceableUnknown(t *testing.T) {
	c := newPlacementCluster(t, plainVM(v1.RunStrategyHalted), newNode("8Gi"))
	c.failing = func(list client.ObjectList) error {
		if _, is := list.(*corev1.LimitRangeList); is {
			return errors.New(`limitranges is forbidden: User "kiln" cannot list resource "limitranges"`)
		}
		return nil
	}
	got := c.expectPlaceable("no right", v1alpha1.ReasonUnreadable)
	if got.Status != corev1.ConditionUnknown || !strings.Contains(got.Message, "limitranges") {
		t.Errorf("%+v", got)
	}
	c.failing = nil
	c.expectPlaceable("the right is back", v1alpha1.ReasonNodeFits)

	vm := plainVM(v1.RunStrategyHalted)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "missing"}
	vm.Spec.Template.Spec.Domain.Memory = nil
	if got := newPlacementCluster(t, vm, newNode("8Gi")).expectPlaceable("no instancetype", v1alpha1.ReasonNotExplicit); got.Status != corev1.ConditionUnknown {
		t.Errorf("%+v", got)
	}
}

// TestPlaceableHostile: names of a tenant make the condition neither long nor several lines.
func TestPlaceableHostile(t *testing.T) {
	for why, change := range map[string]func(*v1.VirtualMachineInstanceSpec){
		"claim": onClaim("../../x\n\x1b[31m" + strings.Repeat("y", 100_000)),
		"labels": func(spec *v1.VirtualMachineInstanceSpec) {
			spec.NodeSelector = map[string]string{"a": strings.Repeat("\n", 100_000), "b": "\x00"}
		},
		"scheduler": func(spec *v1.VirtualMachineInstanceSpec) { spec.SchedulerName = strings.Repeat("\x1b", 100_000) },
	} {
		c := newPlacementCluster(t, plainVM(v1.RunStrategyHalted, change), newNode("8Gi"))
		c.reconcileOnce()
		got := conditionOf(c.vm(), v1alpha1.ConditionPlaceable)
		if got.Reason == "" || got.Status == corev1.ConditionTrue || len(got.Message) > 5000 || strings.ContainsAny(got.Message, "\n\x1b\x00") {
			t.Errorf("%s: %s %s, %d bytes: %.200q", why, got.Status, got.Reason, len(got.Message), got.Message)
		}
	}
}

// TestPlaceableElsewhere: the condition goes where guests do not run in Kiln's pods.
func TestPlaceableElsewhere(t *testing.T) {
	c := newPlacementCluster(t, plainVM(v1.RunStrategyHalted), newNode("8Gi"))
	c.expectPlaceable("in pods", v1alpha1.ReasonNodeFits)
	c.controller.Placement = nil
	c.expectPlaceable("on a bare machine", "")
}
