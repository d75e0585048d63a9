package pods

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// caller is test/virtctl/calls, which calls subresources with KubeVirt's own client.
type caller struct {
	*tenant
	program, kubeconfig string
}

// result is what came of a call.
type result struct {
	Call, Error string
	Code        int
	Answer      json.RawMessage
}

// stream is the answer of a call that opens a stream.
type stream struct {
	Read, Ended string
	Bytes       int
}

// calls makes calls about one guest, after flags of the program in the form -name=value.
func (c caller) calls(name string, args ...string) (list []result) {
	c.Helper()
	var flags []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flags, args = append(flags, args[0]), args[1:]
	}
	command := exec.CommandContext(c.Context(), c.program, append(append(flags, c.namespace, name), args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	out, err := command.Output()
	if err != nil {
		c.Fatalf("calls %v: %v\n%s", args, err, out)
	}
	for line := range strings.Lines(string(out)) {
		one := result{}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			c.Fatalf("%v: %s", err, line)
		}
		list = append(list, one)
	}
	return list
}

// succeed makes calls that must not fail.
func (c caller) succeed(name string, args ...string) result {
	c.Helper()
	list := c.calls(name, args...)
	for _, one := range list {
		if one.Error != "" {
			c.Fatalf("%s: %d %s", one.Call, one.Code, one.Error)
		}
	}
	return list[len(list)-1]
}

// paused waits until a VMI is paused, or is not.
func (c caller) paused(name string, want bool) { //nolint:revive // a value to compare with
	c.Helper()
	c.eventually(fmt.Sprintf("the VMI is paused: %t", want), func() (string, bool) {
		vmi := v1.VirtualMachineInstance{}
		text := c.kubectl("get", "vmi", name, "-o", "json")
		if err := json.Unmarshal([]byte(text), &vmi); err != nil {
			c.Fatal(err)
		}
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == v1.VirtualMachineInstancePaused && condition.Status == corev1.ConditionTrue {
				return "paused", want
			}
		}
		return "not paused", !want
	})
}

// TestSubresources: KubeVirt's client reaches console, display and ports of a guest in its pod, and pauses, resets and stops it.
func TestSubresources(t *testing.T) {
	n := newTenant(t, "subresources")
	n.blockClaim("block")
	n.fileClaim("file")
	n.apply(seed("kiln.mark=first kiln.serve=8080"))
	n.apply(vm("demo"))
	n.phase("demo", "Running")
	n.console("demo", "KILN-SERVES guest at ")
	c := caller{n, cluster.Calls(n, "../.."), shared.Kubeconfig()}

	read := stream{}
	answer := c.succeed("demo", "-send=who is there\n", "-until=KILN-HEARD who is there", "console").Answer
	if err := json.Unmarshal(answer, &read); err != nil || read.Ended != "until" {
		t.Errorf("the guest does not answer at its console: %+v, %v", read, err)
	}
	if err := json.Unmarshal(c.succeed("demo", "vnc").Answer, &read); err != nil || !strings.HasPrefix(read.Read, "RFB 003.") {
		t.Errorf("the display says %+v, %v", read, err)
	}
	const request = "GET / HTTP/1.0\r\n\r\n"
	for _, call := range []string{"portforward=8080", "vmi-portforward=8080"} {
		if err := json.Unmarshal(c.succeed("demo", "-send="+request, "-until=guest at", call).Answer, &read); err != nil || read.Ended != "until" {
			t.Errorf("%s: %+v, %v", call, read, err)
		}
	}
	if refused := c.calls("demo", "portforward=9")[0]; refused.Code != http.StatusInternalServerError || !strings.Contains(refused.Error, "dialing VM") {
		t.Errorf("a port that nobody listens at: %+v", refused)
	}
	c.succeed("demo", "pause")
	c.paused("demo", true)
	if again := c.calls("demo", "pause", "portforward=8080", "softreboot"); again[0].Code != 409 || again[1].Code != 409 || again[2].Code != 409 {
		t.Errorf("what a paused guest is asked: %+v", again)
	}
	c.succeed("demo", "unpause")
	c.paused("demo", false)
	c.succeed("demo", "-send="+request, "-until=guest at", "portforward=8080")
	for _, call := range c.calls("demo", "guestosinfo", "userlist", "filesystemlist") {
		if call.Code != http.StatusConflict { // KubeVirt's client drops the text
			t.Errorf("a guest without an agent: %+v", call)
		}
	}
	uid := n.kubectl("get", "vmi", "demo", "-o", "jsonpath={.metadata.uid}")
	log := func() string { return n.kubectl("logs", "guest-demo") }
	before := strings.Count(log(), "KILN-SERVES")
	c.succeed("demo", "reset")
	n.eventually("the guest has booted again in its pod", func() (string, bool) {
		said := log()
		return said, strings.Count(said, "KILN-SERVES") > before
	})
	if now := n.kubectl("get", "vmi", "demo", "-o", "jsonpath={.metadata.uid}"); now != uid {
		t.Errorf("a reset has made another VMI: %s, was %s", now, uid)
	}
	c.succeed("demo", "stop")
	n.gone("vmi,pods,guestpods")
	c.succeed("demo", "start-paused")
	n.phase("demo", "Running")
	c.paused("demo", true)
	c.succeed("demo", "unpause")
	n.console("demo", "KILN-SERVES guest at ")
	c.succeed("demo", "stop-grace=0")
	n.gone("vmi,pods,guestpods")
}
