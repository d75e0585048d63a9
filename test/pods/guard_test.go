package pods

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kilnvm/kiln/test/cgroups"
	"github.com/kilnvm/kiln/test/node"
)

// guard looks at the processes of the node all the time: no guest runs twice, and one of them, the bystander, never ends.
type guard struct {
	target, bystander string // NAMESPACE_NAME
	mutex             sync.Mutex
	now               []process
	// pods are those in which the target has run, by UID, and whether their cgroups were seen.
	pods map[string]bool
	// life is the PID of the bystander's QEMU.
	life  int
	wrong []string
	looks int
}

// watchProcesses looks until the test ends.
func (n *tenant) watchProcesses(bystander, target string) *guard {
	g := &guard{target: n.namespace + "_" + target, bystander: n.namespace + "_" + bystander, pods: map[string]bool{}}
	g.look()
	stop := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(tick / 2):
				g.look()
			}
		}
	})
	n.Cleanup(func() { close(stop); ended.Wait() })
	return g
}

func (g *guard) look() {
	all := processes()
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.now = all
	g.looks++
	for _, guest := range []string{g.target, g.bystander} {
		machines, pods := []int{}, map[string]bool{}
		for _, p := range all {
			if p.guest != guest {
				continue
			}
			pods[p.pod] = true
			if p.kind == qemu {
				machines = append(machines, p.pid)
			}
			if guest == g.target {
				g.pods[p.pod] = g.pods[p.pod] || hasCgroup(p.pod)
			}
		}
		if len(machines) > 1 || len(pods) > 1 {
			g.wrong = append(g.wrong, fmt.Sprintf("guest %s runs twice: QEMU %v, pods %v", guest, machines, slices.Collect(maps.Keys(pods))))
		}
		if guest == g.bystander {
			g.lives(machines)
		}
	}
}

// lives notes it if the bystander is not the QEMU that it was.
func (g *guard) lives(machines []int) {
	if len(machines) == 1 {
		g.life = cmp.Or(g.life, machines[0])
	}
	if len(machines) != 1 || machines[0] != g.life {
		g.wrong = append(g.wrong, fmt.Sprintf("the other guest has ended: QEMU was %d, is %v", g.life, machines))
	}
}

// wrongs returns what was wrong since the last call.
func (g *guard) wrongs() []string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	wrong := slices.Compact(g.wrong)
	g.wrong = nil
	return wrong
}

// count is the number of QEMUs that the target has.
func (g *guard) count() (count int) {
	for _, p := range processes() {
		if p.kind == qemu && p.guest == g.target {
			count++
		}
	}
	return count
}

// isTargets reports whether a process is of a pod of the target.
func (g *guard) isTargets(p process) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	_, ours := g.pods[p.pod]
	return p.guest == g.target || p.pod != "" && ours
}

// remains says what the node has of pods in which the target has run: processes, cgroups, folders with mounts. Empty if it has nothing.
func (g *guard) remains() string {
	g.mutex.Lock()
	pods := maps.Clone(g.pods)
	g.mutex.Unlock()
	var left []string
	for _, p := range processes() {
		if g.isTargets(p) {
			left = append(left, fmt.Sprintf("process %d, %s", p.pid, p.kind))
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", shared.PID))
	if err != nil {
		return err.Error()
	}
	for _, pod := range slices.Sorted(maps.Keys(pods)) {
		if strings.Contains(string(mounts), pod) {
			left = append(left, "a mount of pod "+pod)
		}
		if !pods[pod] {
			left = append(left, "the cgroup of pod "+pod+" was not found while the pod ran")
		}
		switch _, err := cgroupOf(shared, "memory", pod); {
		case err == nil:
			left = append(left, "a cgroup of pod "+pod)
		case !errors.Is(err, fs.ErrNotExist):
			left = append(left, err.Error())
		}
		if _, err := os.Stat(filepath.Join(shared.Dir, "kubelet", "pods", pod)); err == nil {
			left = append(left, "kubelet's folder of pod "+pod)
		}
	}
	return strings.Join(left, "; ")
}

// hasCgroup reports whether a pod has a cgroup on the shared node.
func hasCgroup(pod string) bool {
	_, err := cgroupOf(shared, "memory", pod)
	return err == nil
}

// cgroupOf returns the folder of a pod on a node, in the hierarchy with a controller.
func cgroupOf(on *node.Node, controller, pod string) (string, error) {
	groups, err := cgroups.Read()
	if err != nil {
		return "", err
	}
	return groups.Pod(controller, on.Cgroup, pod)
}
