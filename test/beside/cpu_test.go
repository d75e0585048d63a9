package beside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// fleet is the number of VMs with a record of their CPU, and of VMs without.
const fleet = 6

// TestCPUStays: VMs have host-model, and begin on two nodes with different CPUs. When virt-controller starts them again, it may place each of them on both
// nodes, and all of them may find another CPU. The VMs that ask for a record find the CPU of their first boot on each node that virt-controller selects. VMs
// that do not ask are as without Kiln.
func TestCPUStays(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	first := map[string]string{}
	for i := range fleet {
		node := fmt.Sprintf("node0%d", 1+i%2)
		for _, kind := range []string{"alone", "kept"} {
			name := fmt.Sprintf("%s-%d", kind, i)
			s.create(manifest(name, v1.RunStrategyHalted, ""))
			annotations := "{}"
			if kind == "kept" {
				annotations = `{"kilnvm.io/frontend": "{}"}`
			}
			s.patch(name, `{"metadata": {"annotations": `+annotations+`}, "spec": {"runStrategy": "Always", "template": {"spec": {"nodeSelector":
				{"kubernetes.io/hostname": "`+node+`"}}}}}`)
			first[name] = s.hostModel(node)
		}
	}
	moved := map[string]int{}
	for name, model := range first {
		began := s.runs(name)
		kind, _, _ := strings.Cut(name, "-")
		if began.Spec.Domain.CPU.Model != v1.CPUModeHostModel {
			t.Fatalf("%s begins with %s", name, began.Spec.Domain.CPU.Model)
		}
		if kind == "kept" {
			s.eventually("the CPU of "+name+" is recorded", func() (bool, any) {
				object, err := s.on.Get(t.Context(), s.in("guesthardware"), name)
				if err != nil {
					return false, err
				}
				hardware := as[v1alpha1.GuestHardware](s, object)
				return hardware.Spec.Hardware != nil && hardware.Spec.Hardware.CPU != nil && hardware.Spec.Hardware.CPU.Model == model, hardware.Spec
			})
		}
		s.patch(name, `{"spec": {"template": {"spec": {"nodeSelector": null}}}}`)
		s.must("restart", name)
		again := s.runs(name, string(began.UID))
		selected := s.selectedNodes(again)
		if len(selected) == 0 {
			t.Errorf("%s fits no node", name)
		}
		if slices.ContainsFunc(selected, func(node string) bool {
			is := again.Spec.Domain.CPU.Model
			return is == v1.CPUModeHostModel && s.hostModel(node) != model || is != v1.CPUModeHostModel && is != model
		}) {
			moved[kind]++
		}
	}
	t.Logf("of %d VMs each, %d may find another CPU with KubeVirt alone, and %d with a record", fleet, moved["alone"], moved["kept"])
	if moved["alone"] != fleet || moved["kept"] != 0 {
		t.Errorf("%v", moved)
	}
	const path = "spec.domain.cpu.model"
	if model := s.explanations("vmi/", []string{"kept-1"})["kept-1"][path]; model != "EPYC-Rome" {
		t.Errorf("explain says that the model is '%v'", model)
	}
	s.noFight()
}

// hostModel is what host-model means on a node.
func (s space) hostModel(node string) string {
	s.Helper()
	object, err := s.on.Get(s.Context(), s.in("node"), node)
	s.ok(err)
	for key := range object.GetLabels() {
		if model, found := strings.CutPrefix(key, v1.HostModelCPULabel); found {
			return model
		}
	}
	s.Fatalf("node %s has no label of its model", node)
	return ""
}

// selectedNodes are the nodes whose CPU the pod of a guest selects.
func (s space) selectedNodes(vmi *v1.VirtualMachineInstance) (names []string) {
	s.Helper()
	pods, err := s.on.List(s.Context(), s.in("pod"), v1.CreatedByLabel+"="+string(vmi.UID))
	s.ok(err)
	if len(pods.Items) != 1 {
		s.Fatalf("%s has %d pods", vmi.Name, len(pods.Items))
	}
	pod := as[corev1.Pod](s, &pods.Items[0])
	if text, err := json.Marshal(pod.Spec.NodeSelector); err == nil {
		s.Logf("%s: %s selects %s", vmi.Name, vmi.Spec.Domain.CPU.Model, text)
	}
	for _, name := range []string{"node01", "node02"} {
		object, err := s.on.Get(s.Context(), s.in("node"), name)
		s.ok(err)
		fits := true
		for key, value := range pod.Spec.NodeSelector {
			if strings.HasPrefix(key, v1.CPUModelLabel) || strings.HasPrefix(key, v1.CPUFeatureLabel) {
				fits = fits && object.GetLabels()[key] == value
			}
		}
		if fits {
			names = append(names, name)
		}
	}
	return names
}
