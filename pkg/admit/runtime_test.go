package admit_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestRefusedByRuntime: if guests run in pods, a VM that no pod starts is refused at a path of the VM, with the name of the object that sets the field. Other
// runtimes, and a runtime that is not known, do not refuse it.
func TestRefusedByRuntime(t *testing.T) {
	t.Parallel()
	const mapped = "cpu: {guest: 2, dedicatedCPUPlacement: true, numa: {guestMappingPassthrough: {}}}\nmemory: {guest: 512Mi, hugepages: {pageSize: 2Mi}}"
	realtime := strings.Replace(mapped, "numa:", "realtime: {}, numa:", 1)
	const tpm = "domain: {memory: {guest: 64Mi}, devices: {tpm: {persistent: true}}}"
	for name, c := range map[string]struct {
		template, instancetype string
		kubeVirt               bool
		runtime                config.Runtime
		stateClass             string
		want                   string
	}{
		"a field of the user":         {template: tpm, runtime: config.RuntimePod, want: "spec.template.spec.domain.devices.tpm.persistent: "},
		"a storage class for states":  {template: tpm, runtime: config.RuntimePod, stateClass: "fast"},
		"a field of the instancetype": {template: "domain: {devices: {}}", instancetype: realtime, runtime: config.RuntimePod, want: "spec.instancetype: "},
		"the NUMA node of the CPUs":   {template: "domain: {devices: {}}", instancetype: mapped, runtime: config.RuntimePod},
		"a bare machine":              {template: tpm, runtime: config.RuntimeNode},
		"a device of a bare machine": {template: "domain: {memory: {guest: 64Mi}, devices: {gpus: [{name: card, deviceName: example.com/card}]}}",
			runtime: config.RuntimeNode, want: "spec.template.spec.domain.devices.gpus[0]: "},
		"a volume of a bare machine": {template: "domain: {memory: {guest: 64Mi}, devices: {disks: [{name: a}]}}\nvolumes: [{name: a, configMap: {name: a}}]",
			runtime: config.RuntimeNode, want: "spec.template.spec.volumes[0]: "},
		"a volume without a source": {template: "domain: {memory: {guest: 64Mi}, devices: {disks: [{name: a}]}}\nvolumes: [{name: a}]",
			runtime: config.RuntimeNode, want: "spec.template.spec.volumes[0]: Required value: "},
		"such a device elsewhere": {template: "domain: {memory: {guest: 64Mi}, devices: {gpus: [{name: card, deviceName: example.com/card}]}}",
			runtime: config.RuntimeNode, kubeVirt: true},
		"beside KubeVirt":             {template: tpm, runtime: config.RuntimePod, kubeVirt: true},
		"a runtime that is not known": {template: tpm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			always := v1.RunStrategyAlways
			vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: &always, Template: &v1.VirtualMachineInstanceTemplateSpec{}}}
			in := admit.Input{Cluster: config.Default()}
			if err := yaml.UnmarshalStrict([]byte(c.template), &vm.Spec.Template.Spec); err != nil {
				t.Fatal(err)
			}
			if c.instancetype != "" {
				in.Set.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: "VirtualMachineClusterInstancetype", Name: "cx1"}}
				vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "cx1"}
				if err := yaml.UnmarshalStrict([]byte(c.instancetype), &in.Set.Instancetype.Spec); err != nil {
					t.Fatal(err)
				}
			}
			in.Cluster.Limits.KubeVirtGuests, in.Cluster.Limits.Runtime, in.Cluster.Pods.StateClass = c.kubeVirt, c.runtime, c.stateClass
			_, verdict := admit.VM(vm, nil, in)
			switch {
			case c.want == "" && len(verdict.Errors) > 0:
				t.Errorf("it is refused: %v", verdict.Errors)
			case c.want != "" && (len(verdict.Errors) != 1 || !strings.HasPrefix(verdict.Errors[0].Error(), c.want)):
				t.Errorf("the errors are %v, want one at '%s'", verdict.Errors, c.want)
			}
			if _, again := admit.VM(vm, nil, in); c.instancetype != "" && c.want != "" && !strings.Contains(again.Errors.ToAggregate().Error(), "'cx1'") {
				t.Errorf("no error names the instancetype: %v", again.Errors)
			}
		})
	}
}
