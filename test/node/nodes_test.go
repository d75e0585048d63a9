package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// on binds a pod to a node, without the scheduler's choice.
func on(node string) string { return "  nodeName: " + node }

func TestTwoNodes(t *testing.T) {
	Require(t)
	second := shared.AddNode(t, "node-2")
	t.Logf("ms from start to: %v", second.Milliseconds)
	second.Import(t, archived)
	namespace(t, "nodes", pod("here", on("node-1"))+pod("there", on("node-2"))+pod("beside", on("node-2")))
	for _, name := range []string{"here", "there", "beside"} {
		running(t, "nodes", name)
	}
	address := func(pod string) string {
		return kubectl(t, "nodes", "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
	}
	for _, pair := range [][2]string{{"here", "there"}, {"there", "here"}, {"beside", "there"}} {
		from, to := pair[0], pair[1]
		want := to + " to " + address(from) + ":" // no address is translated on the way
		if out := kubectl(t, "nodes", "exec", from, "--", "/probe", "fetch", "http://"+address(to)+":8080"); !strings.HasPrefix(out, want) {
			t.Errorf("from %s to %s: want %q, got %q", from, to, want, out)
		}
	}
	// A pod of the second node reaches the API server, which is on the first, by its ClusterIP: the answer to a stranger is the API server's.
	out, _ := shared.Kubectl(t.Context(), "--namespace", "nodes", "exec", "there", "--", "/probe", "fetch", "http://10.96.0.1:443")
	if !strings.Contains(out, "Client sent an HTTP request to an HTTPS server") {
		t.Errorf("the service 'kubernetes' from the second node: want the API server's answer, got %q", out)
	}
	if shared.Store == second.Store || shared.Cgroup == second.Cgroup {
		t.Errorf("want stores and cgroups apart, got %v and %v", shared, second)
	}
	fails(t, second, address)
}

// fails cuts the second node off, kills it and starts it again: its pods are not reached meanwhile, and are started anew only after a kill.
func fails(t *testing.T, second *Node, address func(pod string) string) {
	t.Helper()
	reached := func(why string, want bool) {
		t.Helper()
		eventually(t, why, func() (string, bool) {
			out, err := shared.Kubectl(t.Context(), "--namespace", "nodes", "exec", "here", "--", "/probe", "fetch", "http://"+address("there")+":8080")
			return out, (err == nil && strings.HasPrefix(out, "there to ")) == want
		})
	}
	restarts := func() string {
		return kubectl(t, "nodes", "get", "pod", "there", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	}
	for why, c := range map[string]struct {
		fail, mend func(context.Context) error
		more       bool
	}{"its cable is pulled": {second.Disconnect, second.Connect, false}, "it is killed": {second.Kill, second.Restart, true}} {
		before, link, pid := restarts(), fmt.Sprintf("/proc/%d/ns/pid", second.PID), second.PID
		namespace, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.fail(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := inNamespace(t, namespace); (len(left) == 0) != c.more {
			t.Errorf("%s: of its processes there are %v", why, left)
		}
		reached(why+": no pod of it is reached", false)
		if err := c.mend(t.Context()); err != nil {
			t.Fatal(err)
		}
		reached(why+", and that is over", true)
		if after := restarts(); (after != before) != c.more || (second.PID != pid) != c.more {
			t.Errorf("%s: restarts of the pod were %s, and are %s; process 1 was %d, and is %d", why, before, after, pid, second.PID)
		}
	}
}
