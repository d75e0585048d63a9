package node

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/poll"
)

// pod returns a pod with the container of the probe, which logs the name of its pod.
func pod(name, further string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: probe, image: %[2]s, args: [serve]}]
%[3]s
---
`, name, probe, further)
}

func TestPod(t *testing.T) {
	Require(t)
	namespace(t, "pods", pod("one", on("node-1")))
	running(t, "pods", "one")

	// The pod is running before the container has written.
	if !poll.Until(time.Minute, func() bool { return strings.Contains(kubectl(t, "pods", "logs", "one"), "serving as one") }) {
		t.Errorf("logs: want what the container has written, got %q", kubectl(t, "pods", "logs", "one"))
	}
	if out := kubectl(t, "pods", "exec", "one", "--", "/probe", "cat", "/etc/hostname"); out != "one\n" {
		t.Errorf("exec: want the pod's name, got %q", out)
	}
	address := kubectl(t, "pods", "get", "pod", "one", "-o", "jsonpath={.status.podIP}")
	if got := get(t, "http://"+address+":8080"); !strings.HasPrefix(got, "one to 10.201.1.1:") {
		t.Errorf("Dial: want the pod's answer to the node, got %q", got)
	}
}

// get asks through Dial.
func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: shared.Dial, DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A server of the test is reached from a pod, so that tests can play a webhook or a registry.
func TestListen(t *testing.T) {
	Require(t)
	listener, err := shared.Listen(t.Context(), "tcp", shared.Address+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the test answers") })} //nolint:gosec // ours
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	namespace(t, "listening", pod("asker", ""))
	running(t, "listening", "asker")
	if out := kubectl(t, "listening", "exec", "asker", "--", "/probe", "fetch", "http://"+listener.Addr().String()); out != "the test answers" {
		t.Errorf("want the test's answer, got %q", out)
	}
}

// What one container has, another reads: an image is a volume, and cannot be written to.
func TestImageVolume(t *testing.T) {
	Require(t)
	namespace(t, "volumes", strings.Replace(pod("reader", "  volumes: [{name: files, image: {reference: "+probe+"}}]"),
		"args: [serve]", "args: [serve], volumeMounts: [{name: files, mountPath: /files}]", 1))
	running(t, "volumes", "reader")
	elf, err := shared.Kubectl(t.Context(), "--namespace", "volumes", "exec", "reader", "--", "/probe", "cat", "/files/probe")
	if err != nil {
		t.Fatal(err, elf[:min(len(elf), 200)])
	}
	if first, _ := bufio.NewReader(strings.NewReader(elf)).Peek(4); string(first) != "\x7fELF" {
		t.Errorf("want a program, got %q", first)
	}
	out, err := shared.Kubectl(t.Context(), "--namespace", "volumes", "exec", "reader", "--", "/probe", "touch", "/files/new")
	if err == nil || !strings.Contains(out, "read-only file system") {
		t.Errorf("want a volume that cannot be written to, got %v: %s", err, out)
	}
}
