package e2e

import (
	"fmt"
	"strings"
	"testing"

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
	s.must(s.kubectl("", "create", "serviceaccount", pod.Account(&v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "guest"}})))
	if errs := s.podOf(sample); len(errs) != 1 || errs[0] != nil {
		t.Fatalf("the VMI itself: %v", errs)
	}
	tried, admitted := 0, 0
	try := func(what string, changed map[string]any) {
		tried++
		for _, err := range s.podOf(changed) {
			if admitted++; err != nil {
				t.Errorf("%s: admitted, and its pod is refused: %.400v", what, err)
			}
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
	if admitted < 100 || tried-admitted < 100 {
		t.Errorf("%d of %d VMIs are admitted: the sample or its changes test nothing", admitted, tried)
	}
}

// podOf returns nothing if admission refuses the VMI, else the answer of the API server to its pod: nil if it is taken.
func (s space) podOf(object map[string]any) []error {
	s.Helper()
	stored, err := s.on.WouldCreate(s.Context(), s.in("vmi"), &unstructured.Unstructured{Object: object})
	if err != nil {
		return nil
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, vmi); err != nil {
		s.Fatal(err)
	}
	claims := map[string]pod.Claim{}
	for _, v := range vmi.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.PersistentVolumeClaim.ClaimName] = pod.Claim{}
		}
		if v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil {
			claims[v.Ephemeral.PersistentVolumeClaim.ClaimName] = pod.Claim{}
		}
	}
	made, refused := pod.Of(pod.Input{VMI: vmi, Claims: claims, Settings: pod.Settings{Image: "example.org/launcher:1"}})
	if len(refused) > 0 {
		return []error{refused.ToAggregate()}
	}
	made.Pod.TypeMeta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made.Pod)
	if err != nil {
		s.Fatal(err)
	}
	_, err = s.on.WouldCreate(s.Context(), s.in("pod"), &unstructured.Unstructured{Object: raw})
	return []error{err}
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
