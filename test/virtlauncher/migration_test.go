package virtlauncher

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/test/guest"
)

// TestMigration: virtctl migrates a running guest to another node, and again. The virt-handlers of both nodes connect the virt-launchers of both pods. The VMI
// stays, and the guest does not boot again: the pods to which it comes have no report of it.
func TestMigration(t *testing.T) {
	require(t)
	added := shared.AddNode(t, fmt.Sprintf("node-%d", len(nodes)+1))
	nodes = append(nodes, added)
	if err := installed.Serve(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	g := newSpace(t)
	g.create(fmt.Sprintf(machine, "'"+guest.Cmdline+"'", KernelImage, KernelPath, InitrdPath, DiskImage))
	g.virtctl("start", "demo")
	vmi := g.runs("demo", "")
	g.reports(vmi)
	for range 2 {
		source := g.vmi("demo").Status.NodeName
		var target string
		g.virtctl("migrate", "demo")
		g.eventually("the guest has left "+source, func() (bool, any) {
			now := g.vmi("demo")
			state := now.Status.MigrationState
			if state != nil && state.Failed {
				g.Fatalf("the migration has failed: %s", state.FailureReason)
			}
			target = now.Status.NodeName
			return target != source && state != nil && state.Completed && now.UID == vmi.UID, now.Status
		})
		pod := g.kubectl("get", "pods", "-l", v1.CreatedByLabel+"="+string(vmi.UID), "-o", "name",
			"--field-selector", "spec.nodeName="+target+",status.phase=Running")
		log := g.kubectl("logs", strings.TrimSpace(pod), "-c", "guest-console-log")
		if _, err := guest.ParseReport(strings.NewReader(log)); !errors.Is(err, guest.ErrNoReport) {
			t.Errorf("the guest has booted again on %s (%v):\n%s", target, err, log)
		}
		g.pause("demo")
	}
	g.kubectl("delete", "vm", "demo", "--timeout=120s")
	g.gone("vm,vmi,pods")
}
