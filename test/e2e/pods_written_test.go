package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// ofPods has the fields of a VMI that become fields of its pod.
const ofPods = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: guest, labels: {app: web}, annotations: {example.org/note: x}}
spec:
  hostname: web
  subdomain: sub
  schedulerName: other
  terminationGracePeriodSeconds: 30
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.10], searches: [a.example.org], options: [{name: ndots, value: "2"}]}
  nodeSelector: {zone: a}
  tolerations:
    - {key: k, operator: Exists, effect: NoSchedule}
    - {key: m, operator: Equal, value: v, effect: NoExecute, tolerationSeconds: 30}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, minDomains: 2}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - {topologyKey: zone, namespaces: [other], labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 5, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: web}}}}
  livenessProbe: {httpGet: {port: 80, path: /x, scheme: HTTP, httpHeaders: [{name: X-A, value: b}]}, periodSeconds: 3, successThreshold: 1}
  readinessProbe: {exec: {command: [a]}, initialDelaySeconds: 5, timeoutSeconds: 2, failureThreshold: 3}
  domain:
    memory: {guest: 1Gi}
    resources:
      requests: {cpu: 500m, ephemeral-storage: 1Gi, example.org/dev: "1"}
      limits: {memory: 2Gi, cpu: "2", ephemeral-storage: 2Gi, example.org/dev: "1"}
    devices:
      disks:
        - {name: image, disk: {}}
        - {name: claim, disk: {}}
        - {name: map, disk: {}}
        - {name: secret, disk: {}}
        - {name: cloud, disk: {}}
        - {name: answers, disk: {}}
        - {name: downward, disk: {}}
        - {name: read, disk: {}}
      interfaces: [{name: default, masquerade: {}, ports: [{name: web, port: 80, protocol: TCP}]}]
  networks: [{name: default, pod: {}}]
  volumes:
    - {name: image, containerDisk: {image: "example.org/x:y", imagePullPolicy: Always, imagePullSecret: pull, path: /disk/x.img}}
    - {name: claim, persistentVolumeClaim: {claimName: data}}
    - {name: map, configMap: {name: map, optional: true}}
    - {name: secret, secret: {secretName: secret, optional: true}}
    - {name: cloud, cloudInitNoCloud: {secretRef: {name: user}, networkDataSecretRef: {name: net}}}
    - {name: answers, sysprep: {configMap: {name: answers}}}
    - name: downward
      downwardAPI:
        fields:
          - {path: labels, mode: 256, fieldRef: {fieldPath: "metadata.labels['a']"}}
          - {path: cpu, resourceFieldRef: {containerName: compute, resource: limits.cpu, divisor: "1"}}
    - {name: read, ephemeral: {persistentVolumeClaim: {claimName: other}}}
`

// hostileValues are given to each leaf in turn. Few are legal of most leaves.
var hostileValues = []any{
	"", "a b", "A_b", "a.b", "-a", strings.Repeat("a", 64), "a/b", "../x", "1.5", "100m", "-1", "0",
	int64(-1), int64(0), int64(70000), int64(1 << 40), true,
}

// TestAdmittedGuestsHavePods: the API server takes the pod of each VMI that admission takes. Each leaf of a VMI is removed, and gets hostile values.
func TestAdmittedGuestsHavePods(t *testing.T) {
	s := newSpace(t)
	var sample map[string]any
	if err := yaml.Unmarshal([]byte(ofPods), &sample); err != nil {
		t.Fatal(err)
	}
	s.changeEachLeaf(sample, s.admittedByServer, 100)
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
	for _, at := range leavesOf(sample, nil) {
		what := fmt.Sprint(at)
		less := runtime.DeepCopyJSON(sample)
		put(less, at, nil)
		try(what+" removed", less)
		for _, value := range hostileValues {
			changed := runtime.DeepCopyJSON(sample)
			put(changed, at, value)
			try(fmt.Sprintf("%s is %q", what, fmt.Sprint(value)), changed)
		}
	}
	t.Logf("%d VMIs tried, %d admitted", tried, admitted)
	if admitted < enough || tried-admitted < enough {
		t.Errorf("%d of %d VMIs are admitted: the sample or its changes test nothing", admitted, tried)
	}
}

// admittedByServer returns a VMI as the webhook admits it, or nil.
func (s space) admittedByServer(object map[string]any) *v1.VirtualMachineInstance {
	s.Helper()
	stored, err := s.on.WouldCreate(s.Context(), s.in("vmi"), &unstructured.Unstructured{Object: object})
	if err != nil {
		return nil
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, vmi); err != nil {
		s.Fatal(err)
	}
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
		reviewed, err := reviewer.VMI(t.Context(), sparse, review.Asker{})
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
	made, refused := pod.Of(pod.Input{VMI: vmi, Claims: claims, Settings: pod.Settings{Image: "example.org/launcher:1", LockedMemory: true}})
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

// leavesOf returns the paths of all values below spec that are neither objects nor lists.
func leavesOf(value any, at []any) (found [][]any) {
	below := func(child any, step any) {
		found = append(found, leavesOf(child, append(append([]any{}, at...), step))...)
	}
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if len(at) > 0 || key == "spec" {
				below(child, key)
			}
		}
	case []any:
		for i, child := range value {
			below(child, i)
		}
	default:
		return [][]any{at}
	}
	return found
}

// put sets the value at a path, or removes it if it is nil. An element of a list is not removed, but null.
func put(object any, at []any, value any) {
	for _, step := range at[:len(at)-1] {
		if key, is := step.(string); is {
			object = object.(map[string]any)[key]
		} else {
			object = object.([]any)[step.(int)]
		}
	}
	switch last := at[len(at)-1].(type) {
	case string:
		if object := object.(map[string]any); value == nil {
			delete(object, last)
		} else {
			object[last] = value
		}
	case int:
		object.([]any)[last] = value
	}
}
