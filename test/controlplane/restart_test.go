package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRestart: an API server that was killed is started again, at the same address and with the same data.
func TestRestart(t *testing.T) {
	s := startSupervisor(t, filepath.Join(t.TempDir(), "plane"), "--restart")
	kubectl := func(args ...string) ([]byte, error) {
		return exec.Command(filepath.Join(s.Bin, "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...).CombinedOutput()
	}
	if out, err := kubectl("create", "namespace", "kept"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := unix.Kill(s.PIDs["kube-apiserver"], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := kubectl("get", "namespace", "kept")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not back: %v\n%s", err, out)
		}
	}
}
