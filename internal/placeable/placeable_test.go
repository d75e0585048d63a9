package placeable

import (
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// guest is a VMI as stage 1 leaves it. Its pod requests 200m of CPU and about 800 MiB.
const guest = `
metadata: {name: web, namespace: shop, uid: 5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a}
spec:
  architecture: amd64
  domain: {cpu: {cores: 1, sockets: 2, threads: 1}, memory: {guest: 512Mi}, devices: {}}
`

// worker is a node that has what the guest needs.
const worker = `
metadata: {name: worker, labels: {kubernetes.io/arch: amd64, kilnvm.io/passt: "true", zone: a}}
status:
  allocatable: {cpu: "8", memory: 16Gi, pods: "110", ephemeral-storage: 100Gi, devices.kubevirt.io/kvm: "110", hugepages-2Mi: 1Gi}
  conditions: [{type: Ready, status: "True"}]
`

// merged returns a base with changes laid over it.
func merged(t *testing.T, base, changes string, into any) {
	t.Helper()
	whole, err := yaml.YAMLToJSON([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	more, err := yaml.YAMLToJSON([]byte("{" + changes + "}"))
	if err != nil {
		t.Fatalf("%v\n%s", err, changes)
	}
	if whole, err = jsonpatch.MergePatch(whole, more); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(whole, into); err != nil {
		t.Fatalf("%v\n%s", err, changes)
	}
}

// situation is a guest in a cluster: changes of the guest and of the worker, and what else there is.
type situation struct {
	why  string
	spec string // changes of the spec of the guest
	node string // changes of the worker; "none" for a cluster without nodes
	// second has the changes of a second worker, if it is not empty.
	second               string
	quota, limits, label string
	created              bool
	// features are the features of the guest's recorded CPU, whose vendor is AMD.
	features        []string
	claims, awaited []string
	// mistake is an error of somebody else about the guest.
	mistake *field.Error
	want    string
	// says are parts of the message.
	says []string
}

const (
	fitsReason   = v1alpha1.ReasonNodeFits
	claimed      = `volumes: [{name: root, persistentVolumeClaim: {claimName: root}}], domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}`
	attached     = `networks: [{name: red, multus: {networkName: red}}], domain: {devices: {interfaces: [{name: red, bridge: {}, model: virtio}]}}`
	machineTypes = `metadata: {annotations: {kilnvm.io/machine-types: "pc-q35-9.1,pc-q35-9.2,q35"}}`
	cpuNode      = `metadata: {labels: {cpu-feature.kilnvm.io/sse2: "true", cpu-vendor.kilnvm.io/AMD: "true"}}`
	kvmTaint     = `spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}`
)

var situations = []situation{
	{why: "an ordinary guest", want: fitsReason},

	// objects
	{why: "a claim that does not exist", spec: claimed, want: v1alpha1.ReasonFailedPvcNotFound, says: []string{"'root'", "create it"}},
	{why: "a claim that exists", spec: claimed, claims: []string{"root"}, want: fitsReason},
	{why: "a claim that a DataVolume makes", spec: claimed, awaited: []string{"root"}, want: v1alpha1.ReasonClaimAwaited, says: []string{"'root'"}},
	{why: "such a claim, and no node", spec: claimed, awaited: []string{"root"}, node: "none", want: v1alpha1.ReasonNoNode},
	{why: "a network that does not exist", spec: attached, want: v1alpha1.ReasonNetworkNotFound, says: []string{`"red"`, "create the Network"}},
	{why: "a StorageClass that does not exist", mistake: field.NotFound(field.NewPath("spec"), "fast").WithOrigin(RuleStorageClassMissing),
		want: v1alpha1.ReasonStorageClassNotFound, says: []string{"fast"}},
	{why: "a Secret that does not exist", mistake: pod.Reference{Kind: pod.KindSecret, Name: "key", At: field.NewPath("spec", "volumes")}.Missing(),
		want: v1alpha1.ReasonReferenceNotFound, says: []string{"no Secret 'key'"}},
	{why: "a claim and a network that do not exist: the claim counts", spec: strings.Replace(attached, "networks:",
		"volumes: [{name: root, persistentVolumeClaim: {claimName: root}}], networks:", 1), want: v1alpha1.ReasonFailedPvcNotFound, says: []string{"root", "red"}},
	{why: "a field that no pod serves, beside a missing claim", spec: claimed, mistake: field.Forbidden(field.NewPath("spec", "x"), "no"),
		want: v1alpha1.ReasonNotPlaceable, says: []string{"spec.x"}},
	{why: "a missing claim is said before a quota", spec: claimed, quota: `{spec: {hard: {pods: "0"}}}`, want: v1alpha1.ReasonFailedPvcNotFound},

	// quota
	{why: "a quota of no pods", quota: `{metadata: {name: none}, spec: {hard: {pods: "0"}}}`, want: v1alpha1.ReasonQuotaExceeded,
		says: []string{"'none'", "pods 1", "pods 0", "raise the quota"}},
	{why: "a quota of one pod that is free", quota: `{spec: {hard: {pods: "1"}}, status: {hard: {pods: "1"}, used: {pods: "0"}}}`, want: fitsReason},
	{why: "a quota that others use up", quota: `{spec: {hard: {pods: "1"}}, status: {hard: {pods: "1"}, used: {pods: "1"}}}`,
		want: v1alpha1.ReasonQuotaExceeded, says: []string{"other pods use", "Stop other VMs"}},
	{why: "the pod that uses it up is the guest's own", created: true,
		quota: `{spec: {hard: {pods: "1"}}, status: {hard: {pods: "1"}, used: {pods: "1"}}}`, want: fitsReason},
	{why: "a quota of too little memory", quota: `{spec: {hard: {requests.memory: 512Mi}}}`, want: v1alpha1.ReasonQuotaExceeded,
		says: []string{"requests.memory"}},
	{why: "a quota of enough memory", quota: `{spec: {hard: {requests.memory: 2Gi}}, status: {hard: {requests.memory: 2Gi}}}`, want: fitsReason},
	{why: "memory that others leave too little of",
		quota: `{spec: {hard: {memory: 2Gi}}, status: {hard: {memory: 2Gi}, used: {memory: 1500Mi}}}`, want: v1alpha1.ReasonQuotaExceeded},
	{why: "a quota of devices", quota: `{spec: {hard: {requests.devices.kubevirt.io/kvm: "0"}}}`, want: v1alpha1.ReasonQuotaExceeded,
		says: []string{"requests.devices.kubevirt.io/kvm 1"}},
	{why: "a quota of another device", quota: `{spec: {hard: {requests.example.org/gpu: "0"}}}`, want: fitsReason},
	{why: "a quota of limits that the pod does not set", quota: `{spec: {hard: {limits.cpu: "4"}}}`, want: v1alpha1.ReasonQuotaExceeded,
		says: []string{"limits.cpu", "LimitRange with defaults"}},
	{why: "a LimitRange sets them", quota: `{spec: {hard: {limits.cpu: "4"}}}`,
		limits: `{spec: {limits: [{type: Container, default: {cpu: "2"}, defaultRequest: {cpu: "1"}}]}}`, want: fitsReason},
	{why: "a quota of storage", quota: `{spec: {hard: {requests.storage: "0", persistentvolumeclaims: "0"}}}`, want: fitsReason},
	{why: "a quota of pods with a deadline", quota: `{spec: {hard: {pods: "0"}, scopes: [Terminating]}}`, want: fitsReason},
	{why: "a quota of pods without a deadline", quota: `{spec: {hard: {pods: "0"}, scopes: [NotTerminating, NotBestEffort]}}`,
		want: v1alpha1.ReasonQuotaExceeded},
	{why: "a quota of the guest's priority", spec: "priorityClassName: low",
		quota: `{spec: {hard: {pods: "0"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}}}`,
		want:  v1alpha1.ReasonQuotaExceeded},
	{why: "a quota of another priority", spec: "priorityClassName: high",
		quota: `{spec: {hard: {pods: "0"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}}}`, want: fitsReason},
	{why: "a quota of affinity across namespaces", quota: `{spec: {hard: {pods: "0"}, scopes: [CrossNamespacePodAffinity]}}`, want: fitsReason},
	{why: "a guest with such affinity", quota: `{spec: {hard: {pods: "0"}, scopes: [CrossNamespacePodAffinity]}}`,
		spec: `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaces: [other]}]}}`,
		want: v1alpha1.ReasonQuotaExceeded},

	// LimitRange
	{why: "less memory than the least", limits: `{metadata: {name: sizes}, spec: {limits: [{type: Container, min: {memory: 4Gi}}]}}`,
		want: v1alpha1.ReasonOutsideLimitRange, says: []string{"'sizes'", "the least is 4Gi"}},
	{why: "more memory than the least", limits: `{spec: {limits: [{type: Container, min: {memory: 64Mi}}]}}`, want: fitsReason},
	{why: "the pod has no limit and the LimitRange demands one", limits: `{spec: {limits: [{type: Pod, max: {memory: 4Gi}}]}}`,
		want: v1alpha1.ReasonOutsideLimitRange, says: []string{"limit of memory is nothing"}},
	{why: "the default is within the most", limits: `{spec: {limits: [{type: Container, default: {memory: 2Gi}, max: {memory: 4Gi}}]}}`, want: fitsReason},
	{why: "the limit of the VM is above the most", spec: `domain: {resources: {limits: {memory: 8Gi}}}`,
		limits: `{spec: {limits: [{type: Container, max: {memory: 4Gi}}]}}`, want: v1alpha1.ReasonOutsideLimitRange, says: []string{"the most is 4Gi"}},
	{why: "the limit is too many times the request", limits: `{spec: {limits: [{type: Container, default: {cpu: "2"}, maxLimitRequestRatio: {cpu: "2"}}]}}`,
		want: v1alpha1.ReasonOutsideLimitRange, says: []string{"2 times the request"}},
	{why: "the limit is not too many times the request",
		limits: `{spec: {limits: [{type: Container, default: {cpu: "2"}, maxLimitRequestRatio: {cpu: "20"}}]}}`, want: fitsReason},
	{why: "bounds of claims", limits: `{spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 1Gi}}]}}`, want: fitsReason},
	{why: "a LimitRange for a pod that exists", created: true, limits: `{spec: {limits: [{type: Container, min: {memory: 4Gi}}]}}`, want: fitsReason},

	// Pod Security
	{why: "a restricted namespace", label: psaRestricted, want: fitsReason},
	{why: "a level that nobody knows stands for restricted", label: `pod-security.kubernetes.io/enforce: strict`, want: fitsReason},

	// nodes
	{why: "no node", node: "none", want: v1alpha1.ReasonNoNode, says: []string{"add one"}},
	{why: "a label that no node has", spec: `nodeSelector: {disk: ssd}`, want: v1alpha1.ReasonNoNodeMatches, says: []string{"'disk=ssd'", "label a node"}},
	{why: "a label that a node has", spec: `nodeSelector: {zone: a}`, want: fitsReason},
	{why: "labels that no node has together", spec: `nodeSelector: {zone: a, rack: b}`,
		node: `metadata: {labels: {rack: c}}`, second: `metadata: {labels: {zone: b, rack: b}}`, want: v1alpha1.ReasonNoNodeMatches, says: []string{"all labels"}},
	{why: "another architecture", spec: `architecture: arm64`, want: v1alpha1.ReasonNoNodeMatches, says: []string{"kubernetes.io/arch=arm64"}},
	{why: "an affinity that no node matches", spec: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:
		[{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}`, want: v1alpha1.ReasonNoNodeMatches, says: []string{"affinity.nodeAffinity"}},
	{why: "an affinity that a node matches", spec: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:
		[{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}`, want: fitsReason},
	{why: "affinity to other pods is the scheduler's question",
		spec: `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}`, want: fitsReason},
	{why: "the network of guests needs a label", spec: podNetwork, node: `metadata: {labels: {kilnvm.io/passt: null}}`,
		want: v1alpha1.ReasonNoNodeMatches, says: []string{"kilnvm.io/passt=true"}},
	{why: "a taint", node: kvmTaint, want: v1alpha1.ReasonNoNodeTolerated, says: []string{"'dedicated'", "add a toleration"}},
	{why: "a taint that the guest tolerates", spec: `tolerations: [{key: dedicated, operator: Exists}]`, node: kvmTaint, want: fitsReason},
	{why: "a taint that only warns", node: `spec: {taints: [{key: dedicated, effect: PreferNoSchedule}]}`, want: fitsReason},
	{why: "a tainted node, and another one", node: kvmTaint, second: `metadata: {name: other}`, want: fitsReason},
	{why: "a machine type that QEMU has", spec: "domain: {machine: {type: pc-q35-9.2}}", node: machineTypes, want: fitsReason},
	{why: "a CPU that a node has", features: []string{"sse2"}, node: cpuNode, second: `metadata: {name: other}`, want: fitsReason},
	{why: "a CPU, and no node reports", features: []string{"sse2", "pcommit"}, want: fitsReason},
	{why: "no recorded CPU", node: cpuNode, want: fitsReason},
	{why: "a feature that no node has", features: []string{"pcommit", "sse2"}, node: cpuNode, second: `metadata: {name: other}`,
		want: v1alpha1.ReasonNoNodeHasCPU,
		says: []string{"no node offers the CPU of the guest: 1 node does not report a CPU; 1 node lacks CPU features pcommit. ", "repin --cpu"}},
	{why: "two nodes lack a feature", features: []string{"pcommit", "sse2"}, node: cpuNode, second: cpuNode, want: v1alpha1.ReasonNoNodeHasCPU,
		says: []string{": 2 nodes lack CPU features pcommit. "}},
	{why: "another vendor", features: []string{"sse2"}, node: strings.ReplaceAll(cpuNode, "AMD", "Intel"), want: v1alpha1.ReasonNoNodeHasCPU,
		says: []string{"1 node has another vendor Intel"}},
	{why: "the node with the CPU has no device", features: []string{"sse2"}, node: cpuNode + `, status: {allocatable: {devices.kubevirt.io/kvm: "0"}}`,
		second: `metadata: {name: other}`, want: v1alpha1.ReasonNoNodeHasDevice},
	{why: "an alias", spec: "domain: {machine: {type: q35}}", node: machineTypes, want: fitsReason},
	{why: "a machine type of another vendor", spec: "domain: {machine: {type: pc-q35-rhel9.6.0}}", node: machineTypes,
		want: v1alpha1.ReasonNoNodeHasMachineType, says: []string{"'pc-q35-rhel9.6.0'", "machine.type", "'q35'"}},
	{why: "the beginning of a machine type", spec: "domain: {machine: {type: pc-q35-9}}", node: machineTypes, want: v1alpha1.ReasonNoNodeHasMachineType},
	{why: "a machine type that only another node has", spec: "domain: {machine: {type: pc-q35-10.0}}", node: machineTypes,
		second: `metadata: {name: other, annotations: {kilnvm.io/machine-types: "pc-q35-10.0"}}`, want: fitsReason},
	{why: "a node that does not report its machine types", spec: "domain: {machine: {type: pc-q35-rhel9.6.0}}", want: fitsReason},
	{why: "no KVM", node: `status: {allocatable: {devices.kubevirt.io/kvm: null}}`, want: v1alpha1.ReasonNoNodeHasDevice,
		says: []string{"devices.kubevirt.io/kvm 1", "device plugins"}},
	{why: "no KVM that is healthy", node: `status: {allocatable: {devices.kubevirt.io/kvm: "0"}}`, want: v1alpha1.ReasonNoNodeHasDevice},
	{why: "two GPUs, and a node with one", spec: gpus, node: `status: {allocatable: {example.org/gpu: "1"}}`, want: v1alpha1.ReasonNoNodeHasDevice,
		says: []string{"example.org/gpu 2"}},
	{why: "two GPUs, and a node with two", spec: gpus, node: `status: {allocatable: {example.org/gpu: "2"}}`, want: fitsReason},
	{why: "GPUs and KVM on different nodes", spec: gpus, node: `status: {allocatable: {example.org/gpu: "2", devices.kubevirt.io/kvm: null}}`,
		second: `metadata: {name: other}`, want: v1alpha1.ReasonNoNodeHasDevice, says: []string{"together"}},
	{why: "huge pages of another size", spec: `domain: {memory: {hugepages: {pageSize: 1Gi}, guest: 1Gi}}`, want: v1alpha1.ReasonNoNodeHasHugePages,
		says: []string{"hugepages-1Gi 1Gi", "Reserve"}},
	{why: "too many huge pages", spec: `domain: {memory: {hugepages: {pageSize: 2Mi}, guest: 2Gi}}`, want: v1alpha1.ReasonNoNodeHasHugePages},
	{why: "enough huge pages", spec: `domain: {memory: {hugepages: {pageSize: 2Mi}, guest: 1Gi}}`, want: fitsReason},
	{why: "too much memory", spec: `domain: {memory: {guest: 16Gi}}`, want: v1alpha1.ReasonNoNodeLargeEnough, says: []string{"memory", "smaller instancetype"}},
	{why: "as much memory as a node has", spec: `domain: {memory: {guest: 15Gi}}`, want: fitsReason},
	{why: "too many CPUs", spec: `domain: {cpu: {sockets: 90}}`, want: v1alpha1.ReasonNoNodeLargeEnough, says: []string{"cpu 9"}},
	{why: "as many CPUs as a node has", spec: `domain: {cpu: {sockets: 80}}`, want: fitsReason},
	{why: "CPUs and memory on different nodes", spec: `domain: {cpu: {sockets: 80}, memory: {guest: 15Gi}}`,
		node: `status: {allocatable: {cpu: "4"}}`, second: `status: {allocatable: {memory: 4Gi}}`, want: v1alpha1.ReasonNoNodeLargeEnough,
		says: []string{"together"}},
	{why: "a node without pods", node: `status: {allocatable: {pods: "0"}}`, want: v1alpha1.ReasonNoNodeLargeEnough},
	{why: "a cordoned node", node: `spec: {unschedulable: true}`, want: v1alpha1.ReasonNodesUnavailable, says: []string{"uncordon"}},
	{why: "a cordoned node that is too small is too small", spec: `domain: {memory: {guest: 16Gi}}`, node: `spec: {unschedulable: true}`,
		want: v1alpha1.ReasonNoNodeLargeEnough},
	{why: "a cordoned node, and another one", node: `spec: {unschedulable: true}`, second: `metadata: {name: other}`, want: fitsReason},
	{why: "a node that is not ready", node: `status: {conditions: [{type: Ready, status: Unknown}]}`, want: v1alpha1.ReasonNodesUnavailable},
	{why: "a node under pressure", node: `spec: {taints: [{key: node.kubernetes.io/memory-pressure, effect: NoSchedule}]}`,
		want: v1alpha1.ReasonNodesUnavailable},
	{why: "another scheduler", spec: `schedulerName: mine`, want: v1alpha1.ReasonNotJudged, says: []string{"'mine'"}},
	{why: "another scheduler, and no node", spec: `schedulerName: mine, nodeSelector: {disk: ssd}`, want: v1alpha1.ReasonNoNodeMatches},
	{why: "a device of a driver", spec: `resourceClaims: [{name: gpu, resourceClaimName: gpu}]`, want: v1alpha1.ReasonNotJudged, says: []string{"ResourceClaims"}},
}

const (
	psaRestricted = `pod-security.kubernetes.io/enforce: restricted`
	podNetwork    = `networks: [{name: default, pod: {}}], domain: {devices: {interfaces: [{name: default, masquerade: {}, model: virtio}]}}`
	gpus          = `domain: {devices: {gpus: [{name: a, deviceName: example.org/gpu}, {name: b, deviceName: example.org/gpu}]}}`
)

// judged returns the verdict on a situation.
func judged(t *testing.T, s situation) Verdict {
	t.Helper()
	in := pod.Input{VMI: &v1.VirtualMachineInstance{}, Settings: pod.Settings{Image: "launcher:1", Taps: true, LockedMemory: true}, Claims: map[string]pod.Claim{}}
	merged(t, guest, "spec: {"+s.spec+"}", in.VMI)
	for _, name := range slices.Concat(s.claims, s.awaited) {
		in.Claims[name] = pod.Claim{}
	}
	made, mistakes := pod.New(in)
	need := Need{Pod: made.Pod, MachineType: ptr.Deref(in.VMI.Spec.Domain.Machine, v1.Machine{}).Type, Mistakes: mistakes, Created: s.created, Awaited: s.awaited}
	if len(s.features) > 0 {
		in.VMI.Spec.Domain.CPU.Model = v1.CPUModeHostModel
		cpu := &record.CPU{Requested: v1.CPUModeHostModel, Model: "EPYC", Vendor: "AMD", Features: s.features}
		need.CPU = nodecpu.NeedOf(&in.VMI.Spec, &record.Record{CPU: cpu}, false)
	}
	if s.mistake != nil {
		need.Mistakes = append(need.Mistakes, s.mistake)
	}
	return Judge(need, clusterOf(t, s))
}

func clusterOf(t *testing.T, s situation) (cluster Cluster) {
	t.Helper()
	for _, changes := range []string{s.node, s.second} {
		if changes == "none" || changes == "" && len(cluster.Nodes) > 0 {
			continue
		}
		var node corev1.Node
		merged(t, worker, changes, &node)
		cluster.Nodes = append(cluster.Nodes, node)
	}
	if s.node == "none" {
		cluster.Nodes = nil
	}
	if s.quota != "" {
		cluster.Quotas = make([]corev1.ResourceQuota, 1)
		merged(t, s.quota, "", &cluster.Quotas[0])
	}
	if s.limits != "" {
		cluster.LimitRanges = make([]corev1.LimitRange, 1)
		merged(t, s.limits, "", &cluster.LimitRanges[0])
	}
	if s.label != "" {
		merged(t, "{"+s.label+"}", "", &cluster.NamespaceLabels)
	}
	return cluster
}

// statusOf is the status that belongs to a reason.
func statusOf(reason string) corev1.ConditionStatus {
	switch reason {
	case v1alpha1.ReasonNodeFits, v1alpha1.ReasonGuestRuns:
		return corev1.ConditionTrue
	case v1alpha1.ReasonNodesUnavailable, v1alpha1.ReasonNotJudged, v1alpha1.ReasonClaimAwaited:
		return corev1.ConditionUnknown
	}
	return corev1.ConditionFalse
}

func TestSituations(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range situations {
		t.Run(s.why, func(t *testing.T) {
			got := judged(t, s)
			seen[got.Reason] = true
			if got.Reason != s.want || got.Status != statusOf(s.want) || got.Message == "" {
				t.Fatalf("got %+v, want %s", got, s.want)
			}
			for _, part := range s.says {
				if !strings.Contains(got.Message, part) {
					t.Errorf("the message lacks '%s': %s", part, got.Message)
				}
			}
		})
	}
	for _, reason := range []string{v1alpha1.ReasonNodeFits, v1alpha1.ReasonFailedPvcNotFound, v1alpha1.ReasonNetworkNotFound, v1alpha1.ReasonNotPlaceable,
		v1alpha1.ReasonStorageClassNotFound, v1alpha1.ReasonReferenceNotFound, v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonOutsideLimitRange,
		v1alpha1.ReasonNoNode, v1alpha1.ReasonNoNodeMatches, v1alpha1.ReasonNoNodeTolerated, v1alpha1.ReasonNoNodeHasMachineType, v1alpha1.ReasonNoNodeHasCPU,
		v1alpha1.ReasonNoNodeHasDevice,
		v1alpha1.ReasonNoNodeHasHugePages, v1alpha1.ReasonNoNodeLargeEnough, v1alpha1.ReasonNodesUnavailable, v1alpha1.ReasonNotJudged,
		v1alpha1.ReasonClaimAwaited} {
		if !seen[reason] {
			t.Errorf("no situation has reason %s", reason)
		}
	}
}

// TestPodSecurity: the pods of this version comply with every level, so a pod that a webhook has changed stands for one that does not.
func TestPodSecurity(t *testing.T) {
	in := pod.Input{VMI: &v1.VirtualMachineInstance{}, Settings: pod.Settings{Image: "launcher:1"}}
	merged(t, guest, "", in.VMI)
	made, errs := pod.New(in)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	made.Pod.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	for label, want := range map[string]string{psaRestricted: v1alpha1.ReasonForbiddenByPodSecurity, "": fitsReason,
		"pod-security.kubernetes.io/enforce: baseline": v1alpha1.ReasonForbiddenByPodSecurity, "pod-security.kubernetes.io/enforce: privileged": fitsReason,
		"pod-security.kubernetes.io/warn: restricted": fitsReason} {
		got := Judge(Need{Pod: made.Pod}, clusterOf(t, situation{label: label}))
		if got.Reason != want || want != fitsReason && !strings.Contains(got.Message, "NET_ADMIN") {
			t.Errorf("%s: %+v", label, got)
		}
	}
}

// TestHostileNames: names that a tenant wrote make a message neither long nor several lines.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("x", 100_000) + "\n\x1b[31m"
	in := pod.Input{VMI: &v1.VirtualMachineInstance{}, Settings: pod.Settings{Image: "launcher:1"}}
	merged(t, guest, "", in.VMI)
	made, errs := pod.New(in)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	hostile := made.Pod.DeepCopy()
	for i := range 500 {
		hostile.Spec.NodeSelector[strings.Repeat("k", i+1)] = long
	}
	other := made.Pod.DeepCopy()
	other.Spec.SchedulerName = long
	device := made.Pod.DeepCopy()
	device.Spec.Containers[0].Resources.Requests[corev1.ResourceName("a/"+long)] = device.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	missing := field.NotFound(field.NewPath("spec"), long).WithOrigin(pod.RuleClaimMissing)
	for why, need := range map[string]Need{"labels": {Pod: hostile}, "scheduler": {Pod: other}, "device": {Pod: device},
		"claim": {Mistakes: field.ErrorList{missing}}} {
		got := Judge(need, clusterOf(t, situation{}))
		if got.Reason == fitsReason || len(got.Message) > 4<<10 || strings.ContainsAny(got.Message, "\n\x1b") {
			t.Errorf("%s: %d bytes: %.200q", why, len(got.Message), got.Message)
		}
	}
}

// TestSameWords: a verdict does not depend on the order of maps, or the condition would be written again and again.
func TestSameWords(t *testing.T) {
	for _, s := range situations {
		first := judged(t, s)
		for range 5 {
			if again := judged(t, s); again != first {
				t.Errorf("%s: %+v, then %+v", s.why, first, again)
			}
		}
	}
}
