package admission

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// launcherPod is a pod of virt-launcher as virt-controller v1.9.0 makes it with gate Plugins, without what nothing here reads.
const launcherPod = `
apiVersion: v1
kind: Pod
metadata:
  generateName: virt-launcher-web-
  labels: {kubevirt.io: virt-launcher}
  annotations: {kilnvm.io/frontend: '{"machine":"pc-q35-7.2"}', kubevirt.io/domain: web}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  fieldOfALaterVersion: kept
  securityContext: {runAsUser: 107, runAsGroup: 107, runAsNonRoot: true, fsGroup: 107, seccompProfile: {type: RuntimeDefault}}
  initContainers:
  - name: guest-console-log
    image: registry.example.org/virt-launcher:v1.9.0
    restartPolicy: Always
    fieldOfALaterVersion: kept
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  containers:
  - name: compute
    image: registry.example.org/virt-launcher:v1.9.0
    resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {devices.kubevirt.io/kvm: 1}}
    securityContext: {runAsUser: 107, runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: kubevirt-plugin-sockets, mountPath: /var/run/kubevirt-plugin}]
  volumes: [{name: kubevirt-plugin-sockets, emptyDir: {}}]
`

// injected is the container of a pod that is not of class Guaranteed.
const injected = `
name: kiln-hook
image: registry.example.org/launcher:v1
imagePullPolicy: IfNotPresent
args: [hook, --socket=/var/run/kubevirt-plugin/kiln/hook.sock]
restartPolicy: Always
resources: {requests: {cpu: 10m, memory: 48Mi}, limits: {cpu: 200m, memory: 128Mi}}
securityContext:
  {runAsUser: 107, runAsGroup: 107, runAsNonRoot: true, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]},
   seccompProfile: {type: RuntimeDefault}}
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts: [{name: kubevirt-plugin-sockets, mountPath: /var/run/kubevirt-plugin/kiln, subPath: kiln}]
`

// injecting is a server whose hook has a protocol.
func injecting(t *testing.T, hook virtcontroller.Hook) *cluster {
	t.Helper()
	c := newCluster(t)
	c.LauncherHook = hook
	return c
}

var plugin = virtcontroller.Hook{Image: "registry.example.org/launcher:v1", Protocol: virtcontroller.HookPlugin}

// podOf is virt-controller's request for a pod, edited.
func podOf(t *testing.T, edits ...string) *admissionv1.AdmissionRequest {
	t.Helper()
	request := create(t, strings.NewReplacer(edits...).Replace(launcherPod))
	request.UserInfo.Username = virtController
	return request
}

// patchedPod is the pod after the answer.
func patchedPod(t *testing.T, request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := json.Unmarshal([]byte(patched(t, request, response)), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestHookInPod: virt-controller's pod of a guest with a record gets the hook as its last init container, and nothing else changes.
func TestHookInPod(t *testing.T) {
	c := injecting(t, plugin)
	var want corev1.Container
	if err := yaml.Unmarshal([]byte(injected), &want); err != nil {
		t.Fatal(err)
	}
	for why, edits := range map[string][]string{
		"init containers": nil, "none": {"initContainers", "formerly"}, "an empty list": {"initContainers:\n", "initContainers: []\n  formerly:\n"},
		"null": {"initContainers:\n", "initContainers: null\n  formerly:\n"},
	} {
		request := podOf(t, edits...)
		response := ask(t, c.Hooks()[MutatePod], request)
		if n := strings.Count(string(response.Patch), `"op"`); n != 1 {
			t.Errorf("%s: %d operations: %s", why, n, response.Patch)
		}
		text, pod := patched(t, request, response), patchedPod(t, request, response)
		if strings.Count(text, "fieldOfALaterVersion") != 2 {
			t.Errorf("%s: a field of a later version is lost: %s", why, text)
		}
		last := len(pod.Spec.InitContainers) - 1
		if diff := cmp.Diff(want, pod.Spec.InitContainers[last]); diff != "" {
			t.Errorf("%s: -want +got\n%s", why, diff)
		}
		if why == "init containers" && (last != 1 || pod.Spec.InitContainers[0].Name != "guest-console-log") {
			t.Errorf("the other init containers: %v", pod.Spec.InitContainers)
		}
		again := create(t, text)
		again.UserInfo = request.UserInfo
		if response := ask(t, c.Hooks()[MutatePod], again); !response.Allowed || response.Patch != nil {
			t.Errorf("%s: the second call changes what the first has made: %s", why, response.Patch)
		}
	}
}

// TestPodsWithoutHook: pods that get none, and stay as they are.
func TestPodsWithoutHook(t *testing.T) {
	asker := func(name string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = name }
	}
	for _, test := range []struct {
		why   string
		edits []string
		edit  func(*admissionv1.AdmissionRequest)
	}{
		{why: "a tenant's pod", edit: asker("eve")},
		{why: "a pod of KubeVirt's account in another namespace", edit: asker("system:serviceaccount:shop:kubevirt-controller")},
		{why: "a pod of the namespace's controllers", edit: asker("system:serviceaccount:kube-system:replicaset-controller")},
		{why: "an update", edit: func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Update, r.Object }},
		{why: "no record", edits: []string{"kilnvm.io/frontend", "example.org/frontend"}},
		{why: "another pod of virt-controller's", edits: []string{"{kubevirt.io: virt-launcher}", "{kubevirt.io: hotplug-disk}"}},
		{why: "no label", edits: []string{"labels: {kubevirt.io: virt-launcher}", "labels: {}"}},
		{why: "the target of a migration", edits: []string{"{kubevirt.io: virt-launcher}", "{kubevirt.io: virt-launcher, kubevirt.io/migrationJobUID: m}"}},
		{why: "a pod that binds volumes", edits: []string{"kubevirt.io/domain: web", "kubevirt.io/ephemeral-provisioning: 'true'"}},
		{why: "gate Plugins is off", edits: []string{"volumes: [{name: kubevirt-plugin-sockets, emptyDir: {}}]", "volumes: []"}},
		{why: "a volume of the name that is no emptyDir", edits: []string{"emptyDir: {}", "hostPath: {path: /}"}},
		{why: "a pod without compute", edits: []string{"name: compute", "name: other"}},
		{why: "a container of the name", edits: []string{"name: guest-console-log", "name: kiln-hook"}},
		{why: "an ordinary container of the name", edits: []string{"  containers:\n", "  containers:\n  - {name: kiln-hook}\n"}},
		{why: "a pod that cannot be read", edits: []string{"containers:\n  - name: compute", "containers:\n  - name: 7"}},
	} {
		request := podOf(t, test.edits...)
		if string(request.Object.Raw) == string(podOf(t).Object.Raw) && test.edits != nil {
			t.Errorf("%s: the edit changes nothing", test.why)
		}
		if test.edit != nil {
			test.edit(request)
		}
		if response := ask(t, injecting(t, plugin).Hooks()[MutatePod], request); !response.Allowed || response.Patch != nil {
			t.Errorf("%s: allowed %t, patch %s", test.why, response.Allowed, response.Patch)
		}
	}
}

// TestPodsThatWait: a replica that adds no hook, because the protocol is being changed, says so. It lets pass what needs none.
func TestPodsThatWait(t *testing.T) {
	for why, hook := range map[string]virtcontroller.Hook{
		"hook sidecars": {Image: plugin.Image, Protocol: virtcontroller.HookSidecar}, "no image": {Protocol: virtcontroller.HookPlugin},
	} {
		hooks := injecting(t, hook).Hooks()
		if response := ask(t, hooks[MutatePod], podOf(t)); response.Allowed || response.Result.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %t, %+v", why, response.Allowed, response.Result)
		}
		for _, edits := range [][]string{{"kilnvm.io/frontend", "a"}, {"emptyDir: {}", "hostPath: {path: /}"}} {
			if response := ask(t, hooks[MutatePod], podOf(t, edits...)); !response.Allowed {
				t.Errorf("%s, a pod that needs none (%v): %+v", why, edits, response.Result)
			}
		}
	}
}

// TestInjectedResources: a pod of class Guaranteed stays one.
func TestInjectedResources(t *testing.T) {
	const resources = "resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {devices.kubevirt.io/kvm: 1}}"
	for _, test := range []struct {
		resources  string
		guaranteed bool
	}{
		{"{requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2, memory: 1024Mi}}", true},
		{"{limits: {cpu: 2, memory: 1Gi}}", true}, // the API server takes limits for requests
		{"{requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}", false},
		{"{requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}", false},
		{"{requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2}}", false},
		{"{requests: {cpu: 2, memory: 1Gi}, limits: {memory: 1Gi}}", false},
		{"{}", false},
	} {
		request := podOf(t, resources, "resources: "+test.resources)
		pod := patchedPod(t, request, ask(t, injecting(t, plugin).Hooks()[MutatePod], request))
		got := pod.Spec.InitContainers[1].Resources
		if equal := cmp.Equal(got.Requests, got.Limits); equal != test.guaranteed || len(got.Limits) != 2 || len(got.Requests) != 2 {
			t.Errorf("%s: %v", test.resources, got)
		}
	}
}

// TestInjectedPodIsRestricted: the container keeps a pod within the profile 'restricted' that is within it without, and needs nothing of the pod for that.
func TestInjectedPodIsRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(pod *corev1.Pod) policy.AggregateCheckResult {
		restricted := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
		return policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
	}
	for _, root := range []bool{false, true} {
		request := podOf(t)
		if root { // gate Root
			request = podOf(t, "securityContext: {runAsUser: 107, runAsGroup: 107, runAsNonRoot: true, fsGroup: 107, seccompProfile: {type: RuntimeDefault}}",
				"securityContext: {runAsUser: 0, fsGroup: 107}")
		}
		pod := patchedPod(t, request, ask(t, injecting(t, plugin).Hooks()[MutatePod], request))
		if result := judge(pod); result.Allowed == root {
			t.Errorf("root %t: allowed %t, %s", root, result.Allowed, result.ForbiddenDetail())
		}
		pod.Spec.InitContainers = pod.Spec.InitContainers[1:]
		pod.Spec.Containers, pod.Spec.SecurityContext = pod.Spec.InitContainers, nil
		if result := judge(pod); !result.Allowed {
			t.Errorf("the container alone: %s", result.ForbiddenDetail())
		}
	}
}
