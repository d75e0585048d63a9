package subresources

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/cluster"
	v1 "kubevirt.io/api/core/v1"
)

// virtctl runs a command in the namespace of the test.
func (s space) virtctl(program string, args ...string) (string, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, append([]string{"--namespace", s.name}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestFlow is the flow of the first sketches, by virtctl itself: a configuration, start, an instance, stop, an edit of the configuration, start, another
// instance, stop. After each step the VM's spec is what its owner wrote, except the run strategy of a VM that is not Manual, which KubeVirt writes, too.
func TestFlow(t *testing.T) {
	program := cluster.Virtctl(t, "../..")
	for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyManual, v1.RunStrategyHalted} {
		t.Run(string(strategy), func(t *testing.T) {
			s := newSpace(t)
			s.make("c1", strategy)
			owners := s.vm("c1").Spec
			unchanged := func(step string, running v1.VirtualMachineRunStrategy) {
				t.Helper()
				want := owners.DeepCopy()
				want.RunStrategy = &running
				if diff := cmp.Diff(*want, s.vm("c1").Spec); diff != "" {
					t.Errorf("after the %s the spec differs from its owner's: -want +got\n%s", step, diff)
				}
			}
			started, stopped := v1.RunStrategyManual, v1.RunStrategyManual
			if strategy == v1.RunStrategyHalted {
				started, stopped = v1.RunStrategyAlways, v1.RunStrategyHalted
			}
			do := func(action string) {
				t.Helper()
				if output, err := s.virtctl(program, action, "c1"); err != nil || !strings.Contains(output, "VM c1 was scheduled to "+action) {
					t.Fatalf("virtctl %s: %v: %s", action, err, output)
				}
			}
			do("start")
			i1 := s.vmi("c1", nil)
			unchanged("first start", started)
			s.phase("c1", v1.Running)
			do("stop")
			s.gone("c1")
			unchanged("first stop", stopped)

			s.kubectl("", "patch", "vm", "c1", "--type=merge", `-p={"spec":{"template":{"spec":{"domain":{"devices":{"watchdog":{"name":"dog","i6300esb":{}}}}}}}}`)
			owners = s.vm("c1").Spec
			do("start")
			i2 := s.vmi("c1", i1)
			unchanged("second start", started)
			if i1.Spec.Domain.Devices.Watchdog != nil || i2.Spec.Domain.Devices.Watchdog == nil {
				t.Errorf("the instances have watchdogs %v and %v, want the second alone to have one", i1.Spec.Domain.Devices.Watchdog, i2.Spec.Domain.Devices.Watchdog)
			}
			if i1.Spec.Domain.Firmware.UUID != i2.Spec.Domain.Firmware.UUID {
				t.Errorf("the instances have UUIDs %s and %s: the guest has become another machine", i1.Spec.Domain.Firmware.UUID, i2.Spec.Domain.Firmware.UUID)
			}
			s.phase("c1", v1.Running)
			do("stop")
			s.gone("c1")
			unchanged("second stop", stopped)
		})
	}
}

// TestVirtctlOptions: what virtctl prints of answers.
func TestVirtctlOptions(t *testing.T) {
	program := cluster.Virtctl(t, "../..")
	s := newSpace(t)
	s.make("web", v1.RunStrategyManual)
	if output, err := s.virtctl(program, "version"); err != nil || !strings.Contains(output, "Server Version") {
		t.Errorf("version: %v: %s", err, output)
	}
	if output, err := s.virtctl(program, "stop", "web"); err == nil || !strings.Contains(output, "VM is not running") {
		t.Errorf("stop of what is stopped: %v: %s", err, output)
	}
	if output, err := s.virtctl(program, "start", "web", "--dry-run"); err != nil || !strings.Contains(output, "Dry Run") {
		t.Errorf("start --dry-run: %v: %s", err, output)
	}
	if output := s.kubectl("", "get", "vmi", "web", "--ignore-not-found", "-o", "name"); output != "" {
		t.Errorf("a dry run has started %s", output)
	}
	output, err := s.virtctl(program, "expand", "--vm", "web", "--output", "json")
	expanded := v1.VirtualMachine{}
	if err != nil || json.Unmarshal([]byte(output), &expanded) != nil || expanded.Spec.Instancetype != nil {
		t.Errorf("expand: %v: %.500s", err, output)
	}
	if output, err := s.virtctl(program, "migrate", "web"); err == nil || !strings.Contains(output, "guests are not migrated") {
		t.Errorf("migrate: %v: %s", err, output)
	}
}
