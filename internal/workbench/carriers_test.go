package workbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

// carriedFile is a file with one object of each kind that carries VMs, each of which a policy refuses.
const carriedFile = `apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  virtualMachineTemplate:
    metadata: {labels: {a: b}}
    spec: {runStrategy: Always, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {disks: [{name: a}]}}}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}
---
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: web}
spec:
  parameters: [{name: CORES, value: "2"}]
  virtualMachine: {spec: {runStrategy: Always, template: {spec: {domain: {cpu: {cores: '${{CORES}}'}, memory: {guest: 1Gi}, devices: {}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: KubevirtMachineTemplate
metadata: {name: web}
spec: {template: {spec: {virtualMachineTemplate: {spec: {
  runStrategy: Always, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: KubevirtMachine
metadata: {name: web}
spec: {virtualMachineTemplate: {spec: {runStrategy: Always, template: {spec: {domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {}}}}}}}
`

const carriedPolicy = `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: one-core}
spec:
  matchConstraints: {}
  validations: [{expression: "guest == null || guest.spec.domain.cpu.cores <= 1", message: one core, field: spec.domain.cpu.cores}]
`

// TestSameVerdictOnCarriersAsTheWebhook: what 'validate' says of objects with templates of VMs, with the same paths and warnings, is what the webhook says.
func TestSameVerdictOnCarriersAsTheWebhook(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, policy := filepath.Join(folder, "carriers.yaml"), filepath.Join(folder, "policy.yaml")
	for name, text := range map[string]string{file: carriedFile, policy: carriedPolicy} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if compared, refused := sameVerdict(t, &Bench{Policies: []string{policy}}, file); compared != 5 || refused != 4 {
		t.Errorf("%d objects compared, %d refused", compared, refused)
	}
}

// TestCarriersOfTheAdministrator: a kind that --carrier names is judged, each template at its line.
func TestCarriersOfTheAdministrator(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, policy := filepath.Join(folder, "stack.yaml"), filepath.Join(folder, "policy.yaml")
	for name, text := range map[string]string{policy: carriedPolicy, file: `apiVersion: example.org/v1
kind: Stack
metadata: {name: web}
spec:
  vms:
  - {spec: {runStrategy: Always, template: {spec: {domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {}}}}}}
  - spec: {runStrategy: Always, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}
`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := manifest.Load(manifest.Files{Names: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := (&Bench{Policies: []string{policy}, Carriers: []string{"Stack.example.org=virtualmachines:spec.vms[*]"}}).Review(t.Context(), in, nil)
	if err != nil || len(all.Objects) != 1 {
		t.Fatalf("%d objects, %v", len(all.Objects), err)
	}
	causes := all.Objects[0].Judgement().Causes
	if len(causes) != 1 || causes[0].Field != "spec.vms[1].spec.template.spec.domain.cpu.cores" || causes[0].Line != 7 {
		t.Errorf("%+v", causes)
	}
	if all, err = (&Bench{Policies: []string{policy}}).Review(t.Context(), in, nil); err != nil || len(all.Objects) != 0 {
		t.Errorf("without --carrier the kind is not Kiln's: %d objects, %v", len(all.Objects), err)
	}
	if _, err = (&Bench{Carriers: []string{"Stack"}}).Review(t.Context(), in, nil); err == nil || !strings.Contains(err.Error(), "--carrier") {
		t.Errorf("a wrong flag: %v", err)
	}
}
