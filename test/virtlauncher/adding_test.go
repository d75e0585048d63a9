package virtlauncher

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/objects"
	"github.com/kilnvm/kiln/test/poll"
)

// TestAdding: Kiln is added to KubeVirt while a guest runs, is upgraded, loses all its pods at once, and is removed. The guest answers all the time, by the
// same QEMU, in the same pod and the same boot. No object of the cluster changes, except as docs/explanation/beside-kubevirt.md says. Afterwards virtctl
// restarts it.
func TestAdding(t *testing.T) {
	require(t)
	nightly.Only(t)
	removeKiln(t)
	g := newSpace(t)
	g.create(machine)
	g.virtctl("start", "demo")
	vmi := g.runs("demo", "")
	g.reports(vmi)
	running := g.running("demo")
	before := g.objects()
	answers := g.answers("demo")

	installKiln(t)
	g.treated("demo", false)
	g.unchanged(before, objects.Present)

	second := &Kiln{Root: "../..", Dir: filepath.Join(installed.Dir, "second"), Version: "second"}
	if err := second.Install(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
	kiln = second
	g.eventually("only pods of the second version are there", func() (bool, any) {
		versions := g.versions()
		return slices.Equal(versions, []string{"kiln:second"}), versions
	})
	g.unchanged(before, objects.Present)

	g.kubectl("--namespace", "kiln-system", "delete", "pods", "--all", "--force", "--grace-period=0")
	if err := kiln.Await(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	g.unchanged(before, objects.Present)

	removeKiln(t)
	g.unchanged(before, objects.Removed)
	g.kubectl("delete", "crd", "guestprofiles.kilnvm.io", "clusterguestprofiles.kilnvm.io", "guestpolicies.kilnvm.io",
		"guestpolicyexceptions.kilnvm.io", "guesthardwares.kilnvm.io",
		"hostprofiles.kilnvm.io", "frontendprofiles.kilnvm.io")
	g.kubectl("delete", "namespace", "kiln-system")
	g.unchanged(before, objects.Gone)
	answers()
	if now := g.running("demo"); now != running {
		t.Errorf("the guest that ran as\n%+v\nruns as\n%+v", running, now)
	}
	g.virtctl("restart", "demo")
	g.reports(g.runs("demo", string(vmi.UID)))
}

// objects reads all objects of the cluster. While a definition is being removed, or an API of KubeVirt's or Kiln's does not answer, not all kinds that are
// named can be read: then it asks again.
func (g space) objects() (all objects.Objects) {
	g.Helper()
	g.eventually("all objects can be read", func() (bool, any) {
		var err error
		all, err = objects.Read(func(args ...string) (string, error) { return shared.Kubectl(g.Context(), args...) })
		return err == nil, err
	})
	return all
}

// unchanged fails the test for each difference between objects and what they are now. It waits a minute for what Kubernetes writes in response, such as the
// rules of aggregated roles and the APIService of a definition.
func (g space) unchanged(before objects.Objects, kiln objects.Presence) {
	g.Helper()
	var all []string
	poll.Until(time.Minute, func() bool {
		all = before.Differences(g.objects(), kiln)
		return len(all) == 0
	})
	for _, difference := range all {
		g.Error(difference)
	}
}

// versions returns the images that Kiln's pods run, each once.
func (g space) versions() []string {
	g.Helper()
	list := strings.Fields(g.kubectl("--namespace", "kiln-system", "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}"))
	slices.Sort(list)
	return slices.Compact(list)
}

// guestRun is what is another one after a restart, each in its own way.
type guestRun struct {
	vmi, pod, boot string
	// qemu is the process, with the time at which it started.
	qemu string
	// restarts are the restarts of each container of the pod.
	restarts string
}

// running returns how the guest of a VM runs.
func (g space) running(name string) guestRun {
	g.Helper()
	vmi := g.vmi(name)
	pod := g.pod(vmi)
	r := guestRun{vmi: string(vmi.UID), pod: g.podUID(vmi), boot: g.boot(name),
		restarts: g.kubectl("get", pod, "-o", "jsonpath={range .status.containerStatuses[*]}{.name}={.restartCount} {end}")}
	for _, folder := range g.processes(r.pod) {
		program, _ := os.Readlink(filepath.Join(folder, "exe"))
		if !strings.Contains(program, "qemu-system") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(folder, "stat"))
		if err != nil {
			g.Fatal(err)
		}
		// The 22nd field is the start; the second one is the name, which may have spaces (proc(5)).
		_, fields, _ := strings.Cut(string(stat), ") ")
		r.qemu += filepath.Base(folder) + " started at " + strings.Fields(fields)[19] + "; "
	}
	return r
}

// answers asks the guest of a VM without end, and returns a function that ends that, and fails the test if the guest has not answered once, or has booted
// meanwhile.
func (g space) answers(name string) (end func()) {
	g.Helper()
	ctx, cancel := context.WithCancel(g.Context())
	address, boot, count, longest := g.address(name), g.boot(name), 0, time.Duration(0)
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			text, err := ask(ctx, address, "/boot")
			if ctx.Err() != nil {
				return
			}
			if err != nil || strings.TrimSpace(text) != boot {
				g.Errorf("%s answers after %d answers: '%s', %v; want its boot %s", name, count, text, err, boot)
			}
			count++
			longest = max(longest, time.Since(began))
			time.Sleep(100 * time.Millisecond)
		}
	})
	g.Cleanup(cancel) // if the test ends earlier
	return func() {
		cancel()
		asking.Wait()
		g.Logf("%s has answered %d times, after %s at most", name, count, longest.Round(time.Millisecond))
	}
}
