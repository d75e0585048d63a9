package e2e

import (
	"errors"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/changes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestAdmittedGuestsHavePods: the API server takes the pod of each VMI that admission takes. Each leaf of a VMI is removed, and gets hostile values.
func TestAdmittedGuestsHavePods(t *testing.T) {
	s := newSpace(t)
	var sample map[string]any
	if err := yaml.Unmarshal(changes.OfPods, &sample); err != nil {
		t.Fatal(err)
	}
	s.changeEachLeaf(sample, s.admittedForPods, 100)
}

// changeEachLeaf demands that the API server takes the pod of each VMI that admission takes: of the sample, and of those in which one leaf is removed or has a
// hostile value. At least enough of them are admitted, and refused.
func (s space) changeEachLeaf(sample map[string]any, admit func(map[string]any) *v1.VirtualMachineInstance, enough int) {
	t := s.T
	t.Helper()
	s.must(s.kubectl("", "create", "serviceaccount", pod.Account(&v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "guest"}})))
	vmi := admit(sample)
	if vmi == nil {
		t.Fatal("the VMI itself is refused")
	}
	if err := s.podOf(vmi); err != nil {
		t.Fatalf("the VMI itself: %v", err)
	}
	tried, admitted := 0, 0
	try := func(what string, changed map[string]any) {
		tried++
		vmi := admit(changed)
		if vmi == nil {
			return
		}
		admitted++
		if err := s.podOf(vmi); err != nil {
			t.Errorf("%s: admitted, and its pod is refused: %.400v", what, err)
		}
	}
	changes.Each(sample, "spec", nil, func(single changes.Single) { try(single.What, single.Object) })
	t.Logf("%d VMIs tried, %d admitted", tried, admitted)
	if admitted < enough || tried-admitted < enough {
		t.Errorf("%d of %d VMIs are admitted: the sample or its changes test nothing", admitted, tried)
	}
}

// admittedForPods returns a VMI as schema and webhook admit it if guests run in pods, or nil. The webhook of these tests is of bare machines.
func (s space) admittedForPods(object map[string]any) *v1.VirtualMachineInstance {
	s.Helper()
	one := manifest.Object{Unstructured: &unstructured.Unstructured{Object: object}}
	one.SetNamespace(s.name)
	known, err := crdschema.Scheme()
	if err := errors.Join(err, one.CheckSchema()); err != nil {
		s.Fatal(err)
	}
	bench := workbench.Bench{Runtime: string(config.RuntimePod)}
	all, err := bench.Review(s.Context(), manifest.Inputs{Named: []manifest.Object{one}, Reader: objects.New(known)}, nil)
	if err != nil {
		s.Fatal(err)
	}
	if len(all.Objects) != 1 || all.Objects[0].Fault != nil || !all.Objects[0].Verdict.Allowed() {
		return nil
	}
	vmi := all.Objects[0].Guest.Explicit
	vmi.UID = "1d9c2f0e-0000-4000-8000-000000000001"
	return vmi
}

// ofDevicePods has the fields of a VMI that become claims and extended resources of its pod. Gates are needed for them.
const ofDevicePods = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: guest}
spec:
  architecture: amd64
  resourceClaims: [{name: own, resourceClaimName: shared}, {name: made, resourceClaimTemplateName: template}]
  domain:
    memory: {guest: 1Gi}
    devices:
      gpus: [{name: gpu, deviceName: example.org/gpu}]
      hostDevices: [{name: card, deviceName: example.org/c}, {name: own, claimName: own, requestName: card}, {name: made, claimName: made, requestName: card}]
`

// TestAdmittedDevicesHavePods is TestAdmittedGuestsHavePods for devices, whose gates the tests' cluster has off: the rules of the webhook judge them here.
func TestAdmittedDevicesHavePods(t *testing.T) {
	s := newSpace(t)
	var sample map[string]any
	if err := yaml.Unmarshal([]byte(ofDevicePods), &sample); err != nil {
		t.Fatal(err)
	}
	cluster, err := config.FromKubeVirt(v1.KubeVirtConfiguration{DeveloperConfiguration: &v1.DeveloperConfiguration{
		FeatureGates: []string{"HostDevices", "GPUsWithDRA", "HostDevicesWithDRA"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reviewer := review.Reviewer{Resolver: resolve.Resolver{Cached: objects.New(scheme)}, Configuration: func() config.Cluster { return cluster }}
	s.changeEachLeaf(sample, func(object map[string]any) *v1.VirtualMachineInstance {
		sparse := &v1.VirtualMachineInstance{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, sparse, true); err != nil {
			return nil
		}
		sparse.Namespace, sparse.UID = s.name, "4b2c1d3e-1111-4222-8333-444455556666"
		reviewed, err := reviewer.ReviewVMI(t.Context(), sparse, review.Asker{})
		if err != nil {
			t.Fatal(err)
		}
		if !reviewed.Allowed() {
			return nil
		}
		return reviewed.Explicit
	}, 20)
}

// podOf returns the answer of the API server to the pod of an admitted VMI: nil if it is taken.
func (s space) podOf(vmi *v1.VirtualMachineInstance) error {
	s.Helper()
	claims := map[string]pod.Claim{}
	for _, v := range vmi.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.PersistentVolumeClaim.ClaimName] = pod.Claim{}
		}
		if v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil {
			claims[v.Ephemeral.PersistentVolumeClaim.ClaimName] = pod.Claim{}
		}
	}
	made, refused := pod.New(pod.Input{VMI: vmi, Claims: claims, Settings: pod.Settings{Image: "example.org/launcher:1", LockedMemory: true}})
	if len(refused) > 0 {
		return refused.ToAggregate()
	}
	made.Pod.TypeMeta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made.Pod)
	if err != nil {
		s.Fatal(err)
	}
	_, err = s.on.WouldCreate(s.Context(), s.in("pod"), &unstructured.Unstructured{Object: raw})
	return err
}
