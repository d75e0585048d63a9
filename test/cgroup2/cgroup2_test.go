package cgroup2

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cgroup2/look"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/poll"
)

// Images of the tests' own containers.
const (
	probe   = "docker.io/library/probe:1"
	witness = "docker.io/library/witness:1"
)

// patience bounds what a test waits for: the machine is emulated, and a guest in it once more.
const patience = 15 * time.Minute

// nodes are a first node, and a second node on a machine with cgroups of version 2.
type nodes struct {
	*testing.T
	first   *node.Node
	machine *machine
	dir     string
}

// name is the name of the second node.
const name = "node-2"

// start starts the nodes. The function prepare installs something on the first node, and returns the archives of images that the second one needs.
func start(t *testing.T, kubelet string, memory int, prepare func(ctx context.Context, n nodes) ([]string, error)) nodes {
	t.Helper()
	nightly.Only(t)
	if err := incapable(); err != nil {
		t.Skipf("SKIPPED, THIS MACHINE CANNOT RUN A NODE IN A VIRTUAL MACHINE: %v", err)
	}
	dir, err := cluster.Dir("kiln-cgroup2-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := nodes{T: t, first: node.Start(t, node.Options{Kubelet: kubelet}), dir: dir}
	began := time.Now()
	archives, err := prepare(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for image, program := range map[string]string{probe: "./test/node/probe", witness: "./test/cgroup2/witness"} {
		file := filepath.Join(dir, filepath.Base(program)+".tar")
		if err := node.Program(t.Context(), program, image, file); err != nil {
			t.Fatal(err)
		}
		n.first.Import(t, file)
		archives = append(archives, file)
	}
	t.Logf("the first node was prepared in %s", time.Since(began).Round(time.Second))
	began = time.Now()
	if n.machine, err = startMachine(t.Context(), n.first, name, memory, archives); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.machine.logs())
		}
		if err := n.machine.close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the machine of the second node was ready in %s", time.Since(began).Round(time.Second))
	n.apply("default", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: witness}
spec:
  nodeName: %s
  hostPID: true
  terminationGracePeriodSeconds: 0
  containers: [{name: witness, image: %q, securityContext: {privileged: true}}]
`, name, witness))
	n.kubectl("default", "wait", "--for=condition=Ready", "--timeout=600s", "pod/witness")
	seen := n.look()
	if !seen.Unified || slices.Contains(seen.Filesystems, "cgroup") || !slices.Contains(seen.Filesystems, "cgroup2") {
		t.Fatalf("the machine has filesystems %v, want cgroups of version 2 alone", seen.Filesystems)
	}
	return n
}

// with returns the nodes for a part of the test.
func (n nodes) with(t *testing.T) nodes {
	n.T = t
	return n
}

// kubectl runs kubectl in a namespace.
func (n nodes) kubectl(namespace string, args ...string) string {
	n.Helper()
	out, err := n.first.Kubectl(n.Context(), append([]string{"--namespace", namespace}, args...)...)
	if err != nil {
		events, _ := n.first.Kubectl(n.Context(), "--namespace", namespace, "get", "events,pods", "-o", "wide")
		n.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, events)
	}
	return out
}

// apply applies objects.
func (n nodes) apply(namespace, objects string) {
	n.Helper()
	file := filepath.Join(n.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		n.Fatal(err)
	}
	n.kubectl(namespace, "apply", "-f", file)
}

// eventually polls.
func (n nodes) eventually(what string, check func() (seen string, ok bool)) {
	n.Helper()
	var seen string
	if !poll.Until(patience, func() (ok bool) {
		seen, ok = check()
		return ok
	}) {
		n.Fatalf("not within %s: %s; last seen: %s", patience, what, seen)
	}
}

// look returns what the machine has of pods.
func (n nodes) look() (seen look.Look) {
	n.Helper()
	address := n.kubectl("default", "get", "pod", "witness", "-o", "jsonpath={.status.podIP}")
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: n.first.Dial, DisableKeepAlives: true}}
	n.eventually("the witness answers", func() (string, bool) {
		response, err := client.Get("http://" + address + ":8080/" + n.machine.node.Cgroup)
		if err != nil {
			return err.Error(), false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode == http.StatusOK {
			seen = look.Look{}
			err = json.Unmarshal(body, &seen)
			return fmt.Sprint(err), err == nil
		}
		return string(body), false
	})
	return seen
}

// pod is what the machine has of a pod.
type pod struct {
	look.Cgroup
	uid string
	// container is the cgroup of the only container besides the sandbox, and processes are its processes.
	container look.Cgroup
	processes []look.Process
}

// pod returns what the machine has of a running pod with one container, which must have a cgroup and processes.
func (n nodes) pod(namespace, name string) (p pod) {
	n.Helper()
	out := strings.Fields(n.kubectl(namespace, "get", "pod", name, "-o", `jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID}`))
	if len(out) != 2 {
		n.Fatalf("pod %s has UID and container %v", name, out)
	}
	p.uid = out[0]
	id := strings.TrimPrefix(out[1], "containerd://")
	seen := n.look()
	cgroup, is := seen.Pods[p.uid]
	container, has := cgroup.Containers[id]
	for _, process := range seen.Processes {
		if process.Pod == p.uid && process.Container == id {
			p.processes = append(p.processes, process)
		}
	}
	if !is || !has || len(p.processes) == 0 {
		n.Fatalf("pod %s has on the machine cgroup %v, container %v, processes %v; want all of them", name, is, has, p.processes)
	}
	p.Cgroup, p.container = cgroup, container
	return p
}

// gone waits until the machine has neither cgroups nor processes of pods.
func (n nodes) gone(pods ...pod) {
	n.Helper()
	n.eventually("the machine has nothing of the pods", func() (string, bool) {
		seen := n.look()
		var left []string
		for _, p := range pods {
			if _, is := seen.Pods[p.uid]; is {
				left = append(left, "the cgroup of pod "+p.uid)
			}
			for _, process := range seen.Processes {
				if process.Pod == p.uid {
					left = append(left, "process "+process.Program)
				}
			}
		}
		return strings.Join(left, "; "), len(left) == 0
	})
}

// ends ends the machine, whose node must leave nothing there. Before the end there must be something.
func (n nodes) ends() {
	n.Helper()
	before, err := n.machine.list(n.Context())
	if err != nil {
		n.Fatal(err)
	}
	for _, part := range []string{"cgroup /sys/fs/cgroup/" + n.machine.node.Cgroup + "/kubepods", "kubelet", "/witness"} {
		if !slices.ContainsFunc(before, func(line string) bool { return strings.Contains(line, part) }) {
			n.Errorf("before the end of the node the machine has no '%s' among %d cgroups and processes", part, len(before))
		}
	}
	status, left, err := n.machine.end(n.Context())
	if err != nil {
		n.Fatal(err)
	}
	if status != "0" || len(left) != 0 {
		n.Errorf("the node has ended with status %s, and has left %v", status, left)
	}
}
