package policytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

const carriedCases = `apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicy
metadata: {name: one-core}
spec:
  matchConstraints: {}
  validations: [{expression: "guest == null || guest.spec.domain.cpu.cores <= 1", message: one core, field: spec.domain.cpu.cores}]
---
apiVersion: kilnvm.io/v1alpha1
kind: GuestPolicyTest
policy: one-core
cases:
- name: a pool
  object: &pool {apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: web}, spec: {replicas: 1, virtualMachineTemplate: {spec: {
    runStrategy: Always, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}}}}
  expect: denied
  message: one core
  field: spec.virtualMachineTemplate.spec.template.spec.domain.cpu.cores
- name: replicas of a pool
  object: {apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: web}, spec: {replicas: 2, virtualMachineTemplate: {spec: {
    runStrategy: Always, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}}}}
  oldObject: *pool
  expect: allowed
- name: a run strategy of a pool that violates it already
  object: {apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: web}, spec: {replicas: 1, virtualMachineTemplate: {spec: {
    runStrategy: Halted, template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}}}}}}
  oldObject: *pool
  expect: warned
- name: an update of another kind
  object: *pool
  oldObject: {apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}}
  expect: denied
- name: a Service
  object: {apiVersion: v1, kind: Service, metadata: {name: web}}
  expect: allowed
`

// TestCasesWithCarriers: a case may have an object with a template of VMs, and the object before its update.
func TestCasesWithCarriers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(carriedCases), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := manifest.ReadFolder(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), &workbench.Bench{}, folder, files)
	if err != nil || len(report.Cases) != 5 {
		t.Fatalf("%+v, %v", report, err)
	}
	for i, says := range []string{"", "", "", "must have the kind of the object", "has no template of one"} {
		if c := report.Cases[i]; c.Passed != (says == "") || !strings.Contains(c.Reason, says) {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
}
