package cgroup2

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/kilnvm/kiln/test/installation"
)

// kubelet gives containers that ask for whole CPUs these CPUs alone; one CPU of each node is kept for all others. No server has the address of clusterDNS.
const kubelet = `cpuManagerPolicy: static
cpuManagerReconcilePeriod: 1s
systemReserved: {cpu: 500m}
clusterDNS: [10.96.0.10]`

// TestKiln: on cgroups of version 2 pods have their limits, CPUs of their own and new limits while they run, and end at their limit as on the first node.
// Kiln's DaemonSet and a guest run there, and nothing is left of them.
func TestKiln(t *testing.T) {
	n := start(t, kubelet, 3072, func(ctx context.Context, n nodes) ([]string, error) {
		kiln := &installation.Installation{Root: "../..", Dir: n.dir}
		err := kiln.Install(ctx, n.first)
		return kiln.Archives(), err
	})
	t.Run("Limits", func(t *testing.T) { n.with(t).limits() })
	t.Run("OutOfMemory", func(t *testing.T) { n.with(t).outOfMemory() })
	t.Run("Guest", func(t *testing.T) { n.with(t).guest() })
	t.Run("GuestOutOfMemory", func(t *testing.T) { n.with(t).guestOutOfMemory() })
	n.ends()
}

// container is a pod on a node, with one container of the probe.
func container(name, node, args, resources string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: probe, image: %q, args: [%s], resources: %s}]
---
`, name, node, probe, args, resources)
}

// limits looks at the limits of a pod before and after a resize, and at the CPUs of a pod that has one alone.
func (n nodes) limits() {
	n.apply("default", container("limited", name, "serve", "{requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}")+
		container("exclusive", name, "serve", "{limits: {cpu: 1, memory: 64Mi}}"))
	n.kubectl("default", "wait", "--for=condition=Ready", "--timeout=600s", "pod/limited", "pod/exclusive")
	limited, exclusive := n.pod("default", "limited"), n.pod("default", "exclusive")
	want := map[string]string{"memory.max": "67108864", "cpu.max": "50000 100000"}
	for file, value := range want {
		if ofPod, of := limited.Files[file], limited.container.Files[file]; ofPod != value || of != value {
			n.Errorf("%s of the pod is '%s', and of its container '%s', want '%s'", file, ofPod, of, value)
		}
	}
	n.alone("default", "exclusive")

	n.kubectl("default", "patch", "pod", "limited", "--subresource=resize", "-p",
		`{"spec": {"containers": [{"name": "probe", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "700m", "memory": "96Mi"}}}]}}`)
	n.eventually("the pod has its new limits", func() (string, bool) {
		now := n.pod("default", "limited")
		seen := fmt.Sprint(now.Files, now.container.Files)
		return seen, now.Files["memory.max"] == "100663296" && now.container.Files["memory.max"] == "100663296" &&
			now.Files["cpu.max"] == "70000 100000" && now.container.Files["cpu.max"] == "70000 100000"
	})
	if restarts := n.kubectl("default", "get", "pod", "limited", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		n.Errorf("the container was started again %s times", restarts)
	}
	n.kubectl("default", "delete", "pod", "limited", "exclusive")
	n.gone(limited, exclusive)
}

// alone waits until no other container of the machine may run on the CPU of a pod.
func (n nodes) alone(namespace, name string) {
	n.Helper()
	n.eventually("pod "+name+" has a CPU alone", func() (string, bool) {
		own := n.pod(namespace, name)
		cpus, err := cpuset.Parse(own.container.Files["cpuset.cpus.effective"])
		if err != nil {
			return err.Error(), false
		}
		var others []string
		shared := false
		for _, process := range own.processes {
			of, err := cpuset.Parse(process.CPUs)
			shared = shared || err != nil || !of.IsSubsetOf(cpus)
		}
		for _, process := range n.look().Processes {
			of, err := cpuset.Parse(process.CPUs)
			if process.Pod == own.uid || process.Program == "/pause" || err != nil {
				continue
			}
			others = append(others, process.Program+" "+process.CPUs)
			shared = shared || !of.Intersection(cpus).IsEmpty()
		}
		seen := fmt.Sprintf("it has the CPUs '%s': %v, others: %v", cpus, own.processes, others)
		return seen, cpus.Size() == 1 && len(others) > 0 && !shared
	})
}

// outOfMemory compares what becomes of a container that exceeds its limit on both nodes.
func (n nodes) outOfMemory() {
	const limits = "{limits: {cpu: 500m, memory: 32Mi}}"
	n.apply("default", container("eats-1", "node-1", "eat", limits)+container("eats-2", name, "eat", limits))
	for _, pod := range []string{"eats-1", "eats-2"} {
		n.kubectl("default", "wait", "--for=jsonpath={.status.phase}=Failed", "--timeout=600s", "pod/"+pod)
		const state = `jsonpath={.status.containerStatuses[0].state.terminated.reason} {.status.containerStatuses[0].state.terminated.exitCode}`
		if seen := n.kubectl("default", "get", "pod", pod, "-o", state); seen != "OOMKilled 137" {
			n.Errorf("the container of pod %s has ended by '%s', want 'OOMKilled 137'", pod, seen)
		}
	}
	n.kubectl("default", "delete", "pod", "eats-1", "eats-2")
}

// vm is a guest without an operating system.
func vm(name, node, resources string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s}
spec:
  runStrategy: %s
  template:
    spec:
      nodeSelector: {kubernetes.io/hostname: %s}
      terminationGracePeriodSeconds: 0
      domain:
        memory: {guest: 64Mi}
        resources: %s
        devices: {interfaces: [{name: default, masquerade: {}}]}
      networks: [{name: default, pod: {}}]
---
`, name, map[bool]string{true: "Once", false: "Always"}[resources != "{}"], node, resources)
}

// space makes a namespace that enforces the strictest profile of Pod Security.
func (n nodes) space(name string) {
	n.Helper()
	n.apply("default", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: restricted}}\n", name))
	n.Cleanup(func() {
		if n.Failed() {
			for _, args := range [][]string{
				{"get", "vm,vmi,pods,events", "-o", "wide"}, {"get", "vmi", "-o", "yaml"}, {"logs", "--tail=60", "-l", "kubevirt.io=virt-launcher"},
			} {
				out, _ := n.first.Kubectl(context.WithoutCancel(n.Context()), append([]string{"--namespace", name}, args...)...)
				n.Log(out)
			}
		}
	})
}

// guest runs a guest of Kiln, whose pod never has more memory than it requests, and a guest that has a CPU alone. Both leave nothing.
func (n nodes) guest() {
	if err := installation.AwaitPasst(n.Context(), &n.machine.node.Node); err != nil {
		n.Fatal(err)
	}
	n.space("guests")
	began := time.Now()
	n.apply("guests", vm("demo", name, "{}"))
	n.runs("guests", "demo")
	n.Logf("from create to phase Running: %s", time.Since(began).Round(time.Second))
	p := n.pod("guests", "guest-demo")
	programs := map[string]bool{}
	for _, process := range p.processes {
		programs[process.Program[strings.LastIndex(process.Program, "/")+1:]] = true
	}
	if !programs["qemu-system-x86_64"] || !programs["launcher"] {
		n.Errorf("the guest's container runs %v, want QEMU and launcher", programs)
	}
	request, err := resource.ParseQuantity(n.kubectl("guests", "get", "pod", "guest-demo", "-o", "jsonpath={.spec.containers[0].resources.requests.memory}"))
	if err != nil {
		n.Fatal(err)
	}
	peak, most := int64(0), int64(0)
	for range 10 {
		p = n.pod("guests", "guest-demo")
		peak, most = p.Number("memory.peak"), max(most, p.Memory)
		time.Sleep(time.Second)
	}
	n.Logf("the guest's pod requests %d MiB; it had %d MiB besides pages of files, and %d MiB with them", request.Value()>>20, most>>20, peak>>20)
	if peak == 0 || most == 0 || peak > request.Value() || most > request.Value() {
		n.Errorf("the guest's pod requests %d bytes, and has had %d bytes, of which %d are not pages of files", request.Value(), peak, most)
	}
	n.kubectl("guests", "delete", "vm", "demo", "--timeout=300s")
	n.gone(p)

	n.apply("guests", strings.Replace(vm("pinned", name, "{requests: {memory: 64Mi}, limits: {memory: 64Mi}}"),
		"domain:", "domain:\n        cpu: {cores: 1, dedicatedCpuPlacement: true}", 1))
	n.runs("guests", "pinned")
	n.alone("guests", "guest-pinned")
	p = n.pod("guests", "guest-pinned")
	n.kubectl("guests", "delete", "vm", "pinned", "--timeout=300s")
	n.gone(p)
}

// runs waits until a guest of Kiln runs.
func (n nodes) runs(namespace, vmi string) {
	n.Helper()
	n.kubectl(namespace, "wait", "--for=create", "--timeout=300s", "vmi/"+vmi)
	n.kubectl(namespace, "wait", "--for=jsonpath={.status.phase}=Running", "--timeout=900s", "vmi/"+vmi)
}

// fill returns a command that takes memory of this size in the guest's container, and keeps it. The image has no shell.
func fill(size string) []string {
	return []string{"/usr/bin/qemu-system-x86_64", "-machine", "none", "-display", "none", "-m", size,
		"-object", "memory-backend-ram,id=m,prealloc=on,size=" + size}
}

// guestOutOfMemory compares what a VMI says on both nodes after its container has exceeded its memory limit. On version 2 the kernel ends all processes of the
// container. On version 1 it ends one, which is the largest unless another one is made the first to go: the guest runs on, unless it is the guest's QEMU.
func (n nodes) guestOutOfMemory() {
	n.space("full")
	var seen []string
	for _, node := range []string{"node-1", name} {
		vmi := "on-" + node
		n.apply("full", vm(vmi, node, "{requests: {memory: 64Mi}, limits: {memory: 64Mi}}"))
		n.runs("full", vmi)
		n.fillMemory("full", "guest-"+vmi)
		if node == "node-1" {
			time.Sleep(5 * time.Second)
			if phase := n.kubectl("full", "get", "vmi", vmi, "-o", "jsonpath={.status.phase}"); phase != "Running" {
				n.Errorf("on version 1 the VMI is %s after another process of its container was ended", phase)
			}
			n.endFirst("guest=full_" + vmi)
			n.fillInSteps("full", vmi)
		}
		n.kubectl("full", "wait", "--for=jsonpath={.status.phase}=Failed", "--timeout=900s", "vmi/"+vmi)
		seen = append(seen, n.kubectl("full", "get", "vmi", vmi, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")]['status','reason','message']}`))
	}
	if seen[0] != seen[1] || !strings.Contains(seen[0], "OOMKilled") {
		n.Errorf("the VMI of the first node is Ready: %s; on version 2: %s; want OOMKilled on both", seen[0], seen[1])
	}
	n.kubectl("full", "delete", "vm", "--all", "--timeout=300s")
}

// fillInSteps starts small processes in a guest's container until the VMI has failed.
// Trap: kubelet gives all processes of the container nearly the score that endFirst gives to QEMU, so the kernel ends a process that is larger than QEMU.
func (n nodes) fillInSteps(namespace, vmi string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), patience)
	var all sync.WaitGroup
	defer func() { // also if the test ends here
		cancel()
		all.Wait()
	}()
	n.eventually("the VMI has failed", func() (string, bool) {
		all.Go(func() { // it ends with the container
			_, _ = n.first.Kubectl(ctx, append([]string{"--namespace", namespace, "exec", "guest-" + vmi, "--"}, fill("16M")...)...)
		})
		phase := n.kubectl(namespace, "get", "vmi", vmi, "-o", "jsonpath={.status.phase}")
		return phase, phase == "Failed"
	})
}

// fillMemory takes more memory than the limit of a guest's pod by one process, and waits until the kernel ends the process.
func (n nodes) fillMemory(namespace, pod string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), patience)
	defer cancel()
	out, err := n.first.Kubectl(ctx, append([]string{"--namespace", namespace, "exec", pod, "--"}, fill("2G")...)...)
	if err == nil || ctx.Err() != nil || !strings.Contains(out, "137") {
		n.Fatalf("pod %s: the process that takes memory has ended with %v: %s", pod, err, out)
	}
}

// endFirst makes a process of the first node the one that the kernel ends first.
func (n nodes) endFirst(argument string) {
	n.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		n.Fatal(err)
	}
	found := 0
	for _, file := range files {
		command, _ := os.ReadFile(file)
		if strings.Contains(string(command), argument) {
			found++
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), "oom_score_adj"), []byte("1000"), 0o600); err != nil {
				n.Fatal(err)
			}
		}
	}
	if found != 1 {
		n.Fatalf("%d processes have the argument %s, want one", found, argument)
	}
}
