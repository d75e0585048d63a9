package pods

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/kilnvm/kiln/test/cgroups"
	"github.com/kilnvm/kiln/test/node"
)

// TestTooLarge: a guest with a CPU of its own leaves no room for another one on its node. The other waits with kube-scheduler's words, and starts when the
// first is stopped. Each has its CPU alone.
func TestTooLarge(t *testing.T) {
	n := newTenant(t, "large")
	join(t)
	t.Parallel()
	allocatable := resource.MustParse(n.kubectl("get", "node", "node-2", "-o", "jsonpath={.status.allocatable.memory}"))
	const dedicated = "cpu: {cores: 1, dedicatedCpuPlacement: true}\nresources: {requests: {memory: %d}, limits: {memory: %[1]d}}"
	large := fmt.Sprintf(dedicated, allocatable.Value()/5*3)
	n.apply(firmware("first", only("node-2"), large))
	n.phase("first", "Running")
	n.apply(firmware("other", only("node-2"), large))
	n.unschedulable("other", "Insufficient cpu", "Insufficient memory", "node(s) didn't match Pod's node affinity/selector")
	n.alone("first")

	n.kubectl("patch", "vm", "first", "--type=merge", "-p", `{"spec": {"runStrategy": "Halted"}}`)
	n.phase("other", "Running")
	n.alone("other")
	if synchronized := n.kubectl("get", "vmi", "other", "-o", `jsonpath={.status.conditions[?(@.type=="Synchronized")].status}`); synchronized != "True" {
		n.Errorf("condition Synchronized of a guest that waited and runs is '%s'", synchronized)
	}
	n.kubectl("patch", "vm", "other", "--type=merge", "-p", `{"spec": {"runStrategy": "Halted"}}`)
	t.Run("guestMappingPassthrough", func(t *testing.T) { n.mirrored(t) })
}

// mirrored starts a guest with the NUMA node of its CPU, and with its memory in huge pages of that node, although its pod may not bind memory to NUMA nodes.
func (n *tenant) mirrored(t *testing.T) {
	if !havePages {
		t.Skip("the kernel has no room for huge pages")
	}
	n.apply(virtualMachine("mirrored", strings.TrimSpace(only("node-2"))+`
terminationGracePeriodSeconds: 0
domain:
  cpu: {cores: 1, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}
  memory: {guest: 64Mi, hugepages: {pageSize: 2Mi}}
  devices: {autoattachPodInterface: false}
`))
	n.phase("mirrored", "Running")
	n.alone("mirrored")
	pid := n.process("mirrored")
	nodes, err := filepath.Glob(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/node*", allowed(fmt.Sprintf("/proc/%d/status", pid)).List()[0]))
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	pages, err := hugePages(pid)
	near := strings.TrimPrefix(filepath.Base(nodes[0]), "node")
	if err != nil || len(pages) != 1 || pages[near] != 32 {
		t.Errorf("huge pages by NUMA node: %v, want 32 of node %s: %v", pages, near, err)
	}
}

// alone compares the CPUs of a guest that has a CPU of its own with the CPUs of the node's other containers.
func (n *tenant) alone(vm string) {
	n.Helper()
	if class := n.kubectl("get", "pod", "guest-"+vm, "-o", "jsonpath={.status.qosClass}"); class != "Guaranteed" {
		n.Errorf("the pod of guest %s is %s", vm, class)
	}
	pid := n.process(vm)
	var own cpuset.CPUSet
	vcpus := 0
	for thread, cpus := range n.affinities(pid) {
		own = own.Union(cpus)
		if strings.HasPrefix(thread, "CPU 0/") { // QEMU's name of the thread of the first vCPU
			vcpus++
		}
	}
	if own.Size() != 1 || vcpus != 1 {
		n.Fatalf("QEMU of guest %s has %d threads of vCPUs, and may run on the CPUs %s; want one thread and one CPU", vm, vcpus, own)
	}
	// kubelet takes the CPU from the others a moment after it has given it away.
	n.eventually("no other container of node-2 runs on CPU "+own.String(), func() (string, bool) {
		others := n.containers(second.Node, pid)
		return fmt.Sprint(others), len(others) > 0 && own.Intersection(cpuset.New().Union(others...)).IsEmpty()
	})
}

// affinities returns the CPUs on which the threads of a process may run, by the threads' names.
func (n *tenant) affinities(pid int) map[string]cpuset.CPUSet {
	n.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	found := map[string]cpuset.CPUSet{}
	for _, task := range tasks {
		name, err := os.ReadFile(filepath.Join(task, "comm"))
		if err != nil {
			continue // the thread has ended
		}
		found[strings.TrimSpace(string(name))+" "+filepath.Base(task)] = allowed(filepath.Join(task, "status"))
	}
	return found
}

// allowed reads Cpus_allowed_list, see proc_pid_status(5).
func allowed(file string) cpuset.CPUSet {
	text, _ := os.ReadFile(file)
	_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(rest, "\n")
	cpus, err := cpuset.Parse(strings.TrimSpace(line))
	if err != nil {
		return cpuset.New()
	}
	return cpus
}

// containers returns the CPUs of a node's containers but the one that has the process.
func (n *tenant) containers(of *node.Node, but int) (all []cpuset.CPUSet) {
	n.Helper()
	groups, err := cgroups.Read()
	if err != nil {
		n.Fatal(err)
	}
	pods, err := groups.Pods("cpuset", of.Cgroup)
	if err != nil {
		n.Fatal(err)
	}
	found := false
	for _, pod := range pods {
		containers, err := cgroups.Containers(pod)
		if err != nil {
			continue // the pod has ended
		}
		for _, container := range containers {
			text, err := os.ReadFile(filepath.Join(container, "cgroup.procs"))
			if err != nil {
				continue // the container has ended
			}
			pids := strings.Fields(string(text))
			if slices.Contains(pids, strconv.Itoa(but)) {
				found = true
				continue
			}
			for _, pid := range pids {
				if command, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && !strings.HasPrefix(string(command), "/pause") {
					all = append(all, allowed("/proc/"+pid+"/status"))
				}
			}
		}
	}
	if !found {
		n.Fatalf("process %d is in no container of %s", but, of.Name)
	}
	return all
}

// TestPlaced: the scheduler follows a VM's tolerations, anti-affinity and spread as it follows a pod's.
func TestPlaced(t *testing.T) {
	n := newTenant(t, "placed")
	join(t)
	n.taints()

	t.Parallel()
	const apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"[{labelSelector: {matchExpressions: [{key: app, operator: In, values: [apart-1, apart-2, apart-3]}]}, topologyKey: kubernetes.io/hostname}]}}"
	const spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, " +
		"labelSelector: {matchExpressions: [{key: app, operator: In, values: [spread-1, spread-2]}]}}]"
	n.apply(firmware("apart-1", apart, "") + firmware("apart-2", apart, "") + firmware("spread-1", spread, "") + firmware("spread-2", spread, ""))
	for _, kind := range []string{"apart", "spread"} {
		n.phase(kind+"-1", "Running")
		n.phase(kind+"-2", "Running")
		if one, two := n.nodeOf(kind+"-1"), n.nodeOf(kind+"-2"); one == two || one == "" {
			n.Errorf("%s: the guests are on the nodes '%s' and '%s'", kind, one, two)
		}
	}
	n.apply(firmware("apart-3", apart, ""))
	n.unschedulable("apart-3", "2 node(s) didn't match pod anti-affinity rules")
}

// taints keeps a guest off a node, unless it tolerates that, until the taint is gone.
func (n *tenant) taints() {
	n.Helper()
	taint := "kiln-test-" + strconv.Itoa(rand.IntN(1000)) + "=off:NoSchedule"
	n.kubectl("taint", "node", "node-2", taint)
	key, _, _ := strings.Cut(taint, "=")
	n.apply(firmware("strict", only("node-2"), "") +
		firmware("tolerant", only("node-2")+"tolerations: [{key: "+key+", operator: Exists}]", ""))
	n.unschedulable("strict", "1 node(s) had untolerated taint(s)")
	n.phase("tolerant", "Running")
	n.kubectl("taint", "node", "node-2", taint+"-")
	n.phase("strict", "Running")
	for _, vm := range []string{"strict", "tolerant"} {
		if on := n.nodeOf(vm); on != "node-2" {
			n.Errorf("guest %s is on node '%s', want node-2", vm, on)
		}
	}
	n.kubectl("delete", "vm", "strict", "tolerant", "--wait=false")
}
