package virtlauncher

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
)

// TestMigration: virtctl migrates a running guest to another node, and again. The virt-handlers of both nodes connect the virt-launchers of both pods. The VMI
// stays, and the guest does not boot again: it answers with the same ID of its boot, and the pods to which it comes have no report of it. All of it is the same
// beside Kiln.
func TestMigration(t *testing.T) {
	both(t, func(g space) {
		secondNode(t)
		g.create(machine)
		g.virtctl("start", "demo")
		vmi := g.runs("demo", "")
		g.reports(vmi)
		g.treated("demo", true)
		boot := g.boot("demo")
		for range 2 {
			source := g.vmi("demo").Status.NodeName
			g.virtctl("migrate", "demo")
			g.moved("demo", source)
			if now := g.vmi("demo"); now.UID != vmi.UID {
				g.Fatalf("the VMI is another one: %s, it was %s", now.UID, vmi.UID)
			}
			g.goesOn("demo", boot)
			g.pause("demo")
		}
		g.kubectl("delete", "vm", "demo", "--timeout=120s")
		g.gone("vm,vmi,pods")
	})
}

// secondNode makes a second node, once.
func secondNode(t *testing.T) *node.Node {
	t.Helper()
	if len(nodes) > 1 {
		return nodes[1]
	}
	added := shared.AddNode(t, "node-2")
	nodes = append(nodes, added)
	if err := installed.Serve(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	if kiln != nil {
		if err := kiln.Import(t.Context(), added); err != nil {
			t.Fatal(err)
		}
	}
	return added
}

// moved waits until a guest has left a node by a migration.
func (g space) moved(name, source string) {
	g.Helper()
	g.eventually("the guest has left "+source, func() (bool, any) {
		now := g.vmi(name)
		state := now.Status.MigrationState
		if state != nil && state.Failed {
			g.Fatalf("the migration has failed: %s", state.FailureReason)
		}
		return now.Status.NodeName != source && state != nil && state.Completed, now.Status
	})
}

// goesOn fails the test if a guest that came to its node by a migration has booted again: by the ID of its boot, and by the serial port of its new pod.
func (g space) goesOn(name, boot string) {
	g.Helper()
	vmi := g.vmi(name)
	log := g.console(vmi)
	if _, err := guest.ParseReport(strings.NewReader(log)); !errors.Is(err, guest.ErrNoReport) {
		g.Errorf("the guest has booted again on %s (%v):\n%s", vmi.Status.NodeName, err, log)
	}
	if now := g.boot(name); now != boot {
		g.Errorf("the guest has booted again on %s: its boot is %s, it was %s", vmi.Status.NodeName, now, boot)
	}
}
