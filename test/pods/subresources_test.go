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

// caller is test/kubevirt/calls, which calls subresources with KubeVirt's own client.
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
func (n *tenant) paused(name string, want bool) { //nolint:revive // a value to compare with
	n.Helper()
	n.eventually(fmt.Sprintf("the VMI is paused: %t", want), func() (string, bool) {
		vmi := v1.VirtualMachineInstance{}
		text := n.kubectl("get", "vmi", name, "-o", "json")
		if err := json.Unmarshal([]byte(text), &vmi); err != nil {
			n.Fatal(err)
		}
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == v1.VirtualMachineInstancePaused && condition.Status == corev1.ConditionTrue {
				return "paused", want
			}
		}
		return "not paused", !want
	})
}

// answering is a VirtualMachine whose guest answers at port 8080 and at its console. It has a claim, for virtctl to name.
func answering(name string) string {
	return virtualMachine(name, `
terminationGracePeriodSeconds: 60
domain:
  memory: {guest: 192Mi}
  firmware: {`+kernelBoot("kiln.serve=8080")+`}
  devices:
    rng: {}
    disks: [{name: block, disk: {bus: virtio}}]
    `+nic+`
`+podNetwork+`
volumes:
- {name: block, persistentVolumeClaim: {claimName: block}}
`)
}

// TestSubresources: KubeVirt's client and virtctl reach console, display and ports of a guest in its pod, and pause, reset, restart and stop it. One guest is
// for both: a boot takes a while without KVM.
func TestSubresources(t *testing.T) {
	n := newTenant(t, "subresources")
	t.Parallel()
	n.blockClaim("block")
	n.blockClaim("more")
	n.apply(answering("demo"))
	n.phase("demo", "Running")
	n.console("demo", serves)
	c := caller{n, cluster.Calls(n, "../.."), shared.Kubeconfig()}
	c.streams()
	c.pauses()
	virtctl{n, cluster.Virtctl(n, "../..")}.commands()
	n.gone("vmi,pods,guestpods")
	c.succeed("demo", "start-paused")
	n.phase("demo", "Running")
	c.paused("demo", true)
	c.succeed("demo", "unpause")
	n.console("demo", serves)
	c.succeed("demo", "stop-grace=0")
	n.gone("vmi,pods,guestpods")
}

const (
	// serves is what the guest says when it has booted.
	serves = "KILN-SERVES guest at "
	// request is one that it answers.
	request = "GET / HTTP/1.0\r\n\r\n"
)

// streams opens each kind of stream.
func (c caller) streams() {
	c.Helper()
	read := stream{}
	answer := c.succeed("demo", "-send=who is there\n", "-until=KILN-HEARD who is there", "console").Answer
	if err := json.Unmarshal(answer, &read); err != nil || read.Ended != "until" {
		c.Errorf("the guest does not answer at its console: %+v, %v", read, err)
	}
	if err := json.Unmarshal(c.succeed("demo", "vnc").Answer, &read); err != nil || !strings.HasPrefix(read.Read, "RFB 003.") {
		c.Errorf("the display says %+v, %v", read, err)
	}
	for _, call := range []string{"portforward=8080", "vmi-portforward=8080"} {
		if err := json.Unmarshal(c.succeed("demo", "-send="+request, "-until=guest at", call).Answer, &read); err != nil || read.Ended != "until" {
			c.Errorf("%s: %+v, %v", call, read, err)
		}
	}
	if refused := c.calls("demo", "portforward=9")[0]; refused.Code != http.StatusInternalServerError || !strings.Contains(refused.Error, "dialing VM") {
		c.Errorf("a port that nobody listens at: %+v", refused)
	}
}

// pauses pauses the guest and lets it go on. It asks for what a guest without an agent does not know.
func (c caller) pauses() {
	c.Helper()
	c.succeed("demo", "pause")
	c.paused("demo", true)
	if again := c.calls("demo", "pause", "portforward=8080", "softreboot"); again[0].Code != 409 || again[1].Code != 409 || again[2].Code != 409 {
		c.Errorf("what a paused guest is asked: %+v", again)
	}
	c.succeed("demo", "unpause")
	c.paused("demo", false)
	c.succeed("demo", "-send="+request, "-until=guest at", "portforward=8080")
	for _, call := range c.calls("demo", "guestosinfo", "userlist", "filesystemlist") {
		if call.Code != http.StatusConflict { // KubeVirt's client drops the text
			c.Errorf("a guest without an agent: %+v", call)
		}
	}
}
