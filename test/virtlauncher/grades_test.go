package virtlauncher

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/poll"
)

// atOnce is how many guests boot at the same time: emulated ones keep two cores busy.
const atOnce = 4

// TestGrades: VMs whose devices are each edited once, and which of their other devices the guests find elsewhere after a restart: with KubeVirt alone, with
// Kiln's record and none of KubeVirt's gates, and with Kiln's hook by gate Sidecar and by gate Plugins. What a guest reports at a boot is compared with what it
// has reported at its first boot, before the edit.
//
// With KubeVirt alone disks and interfaces move. With the record no virtio disk and no interface moves, unless the edit moves root ports or the numbers of
// buses. With the hook nothing moves at all, and devices that the edit has added are at the same places with both gates.
func TestGrades(t *testing.T) {
	nightly.Only(t)
	require(t)
	removeKiln(t)
	g := grades{space: newSpace(t), dir: t.TempDir(), first: map[string]sight{}, moved: map[string]moves{}}
	t.Cleanup(func() { // later tests have no gates and no hook
		removeKiln(t)
		if err := SetGates(context.WithoutCancel(t.Context()), shared); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Build(t.Context(), "../..", g.dir, "kubectl-kiln"); err != nil {
		t.Fatal(err)
	}
	var all []edited
	for seed := range nightly.Number(t, "EDITS", 50) {
		all = append(all, editedVM(uint64(seed)))
	}

	booted := g.boots("KubeVirt alone", all, g.firstBoots)
	all = slices.DeleteFunc(all, func(e edited) bool { return booted[e.name] == nil })
	g.install("")
	for _, e := range all {
		g.capture(e.name)
	}
	recorded := g.boots("recorded, no gate", all, boot)
	g.install("Sidecar")
	bySidecar := g.boots("gate Sidecar", all, boot)
	g.install("Plugin")
	byPlugin := g.boots("gate Plugins", all, boot)

	all = slices.DeleteFunc(all, func(e edited) bool {
		return recorded[e.name] == nil || bySidecar[e.name] == nil || byPlugin[e.name] == nil
	})
	for _, e := range all {
		g.judge(e, recorded[e.name], bySidecar[e.name], byPlugin[e.name])
	}
	for _, grade := range []string{"KubeVirt alone", "recorded, no gate", "gate Sidecar", "gate Plugins"} {
		t.Logf("%s: %s", grade, g.moved[grade])
	}
	if m := g.moved["KubeVirt alone"]; m.disks == 0 || m.links == 0 {
		t.Errorf("with KubeVirt alone no virtio disk moved: the edits prove nothing: %s", m)
	}
}

// grades is a test with the first sight of each guest, and what has moved by grade.
type grades struct {
	space
	dir   string
	lock  sync.Mutex
	first map[string]sight
	moved map[string]moves
}

// judge fails the test if something has moved that a grade keeps.
func (g *grades) judge(e edited, recorded, bySidecar, byPlugin sight) {
	g.Helper()
	if m := compare(g.first[e.name], recorded); m.disks+m.interfaces > 0 && !slices.Contains(boards, e.what) {
		g.Errorf("%s (%s) without gate: %s", e.name, e.what, strings.Join(m.list, "; "))
	}
	for gate, now := range map[string]sight{"Sidecar": bySidecar, "Plugins": byPlugin} {
		if m := compare(g.first[e.name], now); m.moved > 0 || m.devices == 0 {
			g.Errorf("%s (%s) with gate %s: %d devices, %s", e.name, e.what, gate, m.devices, strings.Join(m.list, "; "))
		}
	}
	if m := compare(bySidecar, byPlugin); m.moved > 0 || len(bySidecar) != len(byPlugin) {
		g.Errorf("%s (%s) from gate Sidecar to gate Plugins: %s", e.name, e.what, strings.Join(m.list, "; "))
	}
}

// boots boots all guests, some at the same time, each in a test of its own, and returns what they see. A guest whose test fails is left out, so that one of
// them does not hide what the others see.
func (g *grades) boots(grade string, all []edited, boot func(space, edited) sight) map[string]sight {
	g.Helper()
	started, seen := time.Now(), map[string]sight{}
	next := make(chan edited)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for e := range next {
				g.Run(grade+" "+e.name, func(t *testing.T) {
					own := g.space
					own.T = t
					now := boot(own, e)
					g.lock.Lock()
					defer g.lock.Unlock()
					m, sum := compare(g.first[e.name], now), g.moved[grade]
					sum.add(m)
					seen[e.name], g.moved[grade] = now, sum
					if m.moved > 0 {
						t.Logf("%s: %s", e.what, strings.Join(m.list, "; "))
					}
				})
			}
		})
	}
	for _, e := range all {
		next <- e
	}
	close(next)
	workers.Wait()
	if len(seen) == 0 {
		g.FailNow()
	}
	g.Logf("%s: %d guests in %s", grade, len(seen), time.Since(started).Round(time.Second))
	return seen
}

// firstBoots creates a VM, boots it, keeps its domain as an administrator does before a capture, edits the VM and restarts it.
func (g *grades) firstBoots(s space, e edited) sight {
	s.Helper()
	text, err := json.Marshal(e.vm)
	if err != nil {
		s.Fatal(err)
	}
	s.create(string(text))
	s.virtctl("start", e.name)
	vmi, first := s.awaitReport(e.name, "")
	domain := s.kubectl("exec", s.pod(vmi), "-c", "compute", "--", "virsh", "dumpxml", s.name+"_"+e.name)
	if err := os.WriteFile(g.domain(e.name), []byte(domain), 0o600); err != nil {
		s.Fatal(err)
	}
	g.lock.Lock()
	g.first[e.name] = first
	g.lock.Unlock()
	patch, err := e.patch()
	if err != nil {
		s.Fatal(err)
	}
	s.kubectl("patch", "vm", e.name, "--type=json", "--patch", patch)
	s.virtctl("restart", e.name)
	_, now := s.awaitReport(e.name, vmi.UID)
	s.stop(e.name)
	return now
}

// domain is the file with the domain of a guest at its first boot.
func (g *grades) domain(name string) string { return filepath.Join(g.dir, name+".xml") }

// boot starts a guest, and stops it when it has reported.
func boot(s space, e edited) sight {
	s.Helper()
	s.virtctl("start", e.name)
	_, now := s.awaitReport(e.name, "")
	s.stop(e.name)
	return now
}

// awaitReport waits until a VM has another VMI than one that is named, and its guest has reported, and returns both. Several guests boot at the same time, so
// it waits longer than other tests. The pod has the hook if Kiln is installed with it, and no container of Kiln otherwise.
func (g space) awaitReport(name string, other types.UID) (vmi v1.VirtualMachineInstance, now sight) {
	g.Helper()
	if !poll.Until(3*patience, func() bool {
		vmi = g.vmi(name)
		for _, c := range vmi.Status.Conditions {
			if strings.Contains(c.Message, v1alpha1.AnnotationHardwareFailure) { // the hook suggests it
				g.Fatalf("the hook refuses to start %s: %s", name, c.Message)
			}
		}
		return vmi.Status.Phase == v1.Running && vmi.UID != other
	}) {
		g.Fatalf("%s does not run: %+v", name, vmi.Status)
	}
	var further []string
	if kiln != nil && kiln.Hook != "" {
		further = append(further, kiln.HookImage())
	}
	if images := g.images(vmi); !slices.Equal(images, further) {
		g.Errorf("the pod of %s has containers of the images %v besides KubeVirt's, want %v", name, images, further)
	}
	return vmi, seenBy(g.reports(vmi))
}

func (g space) stop(name string) {
	g.Helper()
	g.virtctl("stop", name)
	g.eventually(name+" is stopped", func() (bool, any) {
		vmi := g.vmi(name)
		return vmi.UID == "", vmi.Status
	})
}

// install installs Kiln with this protocol of the hook, over what is installed, and turns on the gate of the protocol.
func (g *grades) install(protocol string) {
	g.Helper()
	gates := map[string][]string{"Sidecar": {"Sidecar"}, "Plugin": {"Plugins"}}[protocol]
	if err := SetGates(g.Context(), shared, gates...); err != nil {
		g.Fatal(err)
	}
	next := &Kiln{Root: "../..", Dir: filepath.Join(installed.Dir, "grade"+protocol), Version: "grade" + strings.ToLower(protocol), Hook: protocol}
	if err := next.Install(g.Context(), nodes...); err != nil {
		g.Fatal(err)
	}
	kiln = next
}

// capture records the hardware that a guest had at its first boot, as docs/how-to/keep-hardware.md says.
func (g *grades) capture(name string) {
	g.Helper()
	g.eventually("Kiln has pinned "+name, func() (bool, any) {
		vm := g.vm(name)
		return vm.Annotations[v1alpha1.AnnotationIdentity] != "", vm.Annotations
	})
	cmd := exec.CommandContext(g.Context(), filepath.Join(g.dir, "kubectl-kiln"), "--namespace", g.name, "capture", "vm/"+name,
		"--domain", g.domain(name), "--kubevirt")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	var failed strings.Builder
	cmd.Stderr = &failed
	text, err := cmd.Output()
	if err != nil {
		g.Fatalf("kubectl kiln capture vm/%s: %v\n%s", name, err, failed.String())
	}
	g.create(string(text))
}
