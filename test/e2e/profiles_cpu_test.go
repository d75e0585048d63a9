package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// nodeOffering creates a node for this test whose labels report CPU models and features of Intel.
func (s space) nodeOffering(name, models, features string) {
	s.Helper()
	labels := map[string]string{"pool": s.name, v1alpha1.LabelCPUVendor + "Intel": "true"}
	for prefix, names := range map[string]string{v1alpha1.LabelCPUModel: models, v1alpha1.LabelCPUFeature: features} {
		for of := range strings.FieldsSeq(names) {
			labels[prefix+of] = "true"
		}
	}
	raw, err := json.Marshal(labels)
	if err != nil {
		s.Fatal(err)
	}
	s.must(s.kubectl(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s-%s, labels: %s}}", s.name, name, raw), "apply", "-f", "-"))
	s.Cleanup(func() { s.kubectlAfter("delete", "node", s.name+"-"+name, "--ignore-not-found") })
}

// cpuOf returns the model and the features of a VMI.
func cpuOf(guest *unstructured.Unstructured) string {
	features, _ := field(guest, "spec", "domain", "cpu", "features").([]any)
	text := fmt.Sprint(field(guest, "spec", "domain", "cpu", "model"))
	for _, of := range features {
		feature, _ := of.(map[string]any)
		text += fmt.Sprintf(" %v=%v", feature["name"], feature["policy"])
	}
	return text
}

// TestCommonCPU: a VM gets the CPU that the nodes have in common when it is created, and keeps it beside a weaker node, until it is repinned. New VMs get less.
func TestCommonCPU(t *testing.T) {
	s := newSpace(t)
	const large, small = "Skylake-Server aes=require avx512f=require", "Haswell aes=require"
	s.clusterProfile("-cpu", "selector: {matchLabels: {app: web}}, commonCPU: {nodeSelector: {matchLabels: {pool: "+s.name+"}}}")
	status := func() (of v1alpha1.ClusterGuestProfileStatus) {
		raw, err := json.Marshal(s.get("clusterguestprofile", s.name+"-cpu").Object["status"])
		if err == nil {
			err = json.Unmarshal(raw, &of)
		}
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	s.eventually("the controller has found no node", func() bool {
		found := meta.FindStatusCondition(status().Conditions, v1alpha1.ConditionCommonCPU)
		return found != nil && found.Reason == v1alpha1.ReasonNoNodes && !meta.IsStatusConditionTrue(status().Conditions, v1alpha1.ConditionAccepted)
	})
	refused := s.kubectl(web("early"), "apply", "-f", "-")
	if refused.err == nil || !strings.Contains(refused.stderr, "ClusterGuestProfile '"+s.name+"-cpu' has no CPU yet that its nodes have in common") {
		t.Errorf("a VM before there is a CPU: %v %s", refused.err, refused.stderr)
	}
	s.nodeOffering("strong", "Haswell Skylake-Server", "aes avx512f")
	everywhere := func(want string) func() bool {
		return func() bool {
			for range 8 { // both replicas of the webhook
				bare := parse(s.T, "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare, labels: {app: web}}, spec: {domain: "+
					"{memory: {guest: 128Mi}, devices: {}}}}")
				if object, err := s.on.WouldCreate(s.Context(), s.in("vmi"), bare); err != nil || cpuOf(object) != want {
					return false
				}
			}
			return true
		}
	}
	s.eventually("new VMIs get the CPU of the node", everywhere(large))
	s.create(web("first"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "first") })
	s.nodeOffering("weak", "Haswell", "aes")
	s.eventually("new VMIs get the CPU that both nodes have", everywhere(small))
	limit := v1alpha1.CommonCPULimit{Nodes: 1, Names: []string{s.name + "-weak"}, Model: "Skylake-Server", Features: 1, FeatureNames: []string{"avx512f"}}
	if diff := cmp.Diff([]v1alpha1.CommonCPULimit{limit}, status().CommonCPU.LimitedBy); diff != "" {
		t.Errorf("limits (-want +status):\n%s", diff)
	}
	s.create(web("second"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "second") })
	for name, want := range map[string]string{"first": large, "second": small} {
		if got := cpuOf(s.restarted(name)); got != want {
			t.Errorf("after a restart beside a weaker node, VM %s has %s, want %s", name, got, want)
		}
	}
	pins := allPins(t, s.get("vm", "first"))
	now := allPins(t, s.get("vm", "second"))
	if was, is := s.usages()[pins.Profiles[0]].State, s.usages()[now.Profiles[0]].State; was != "outdated" || is != "current" {
		t.Errorf("the revisions are %s and %s", was, is)
	}
	dry := s.must(s.kiln("repin", "vm/first", "--profiles", "--dry-run"))
	if !strings.Contains(dry.stdout, "  profiles: "+pins.Profiles[0]+" -> ") || !strings.Contains(dry.stdout, "Haswell") ||
		!cmp.Equal(pins, allPins(t, s.get("vm", "first"))) {
		t.Errorf("the dry run says\n%s", dry.stdout)
	}
	s.must(s.kiln("repin", "vm/first", "--profiles"))
	if got := cpuOf(s.restarted("first")); got != small {
		t.Errorf("repinned, the VM has %s", got)
	}
}
