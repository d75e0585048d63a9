package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

// TestMain runs the driver or csi-test's suite if a test started this program for it, because a process can run the suite only once.
func TestMain(m *testing.M) {
	switch os.Getenv("KILN_TEST_RUNS") {
	case "driver":
		main()
	case "sanity":
		os.Exit(suite(os.Getenv("KILN_TEST_SOCKET"), os.Getenv("KILN_TEST_MODE")))
	default:
		os.Exit(m.Run())
	}
}

// verdict is what the suite says in the end.
type verdict struct{ failed bool }

func (v *verdict) Fail() { v.failed = true }

// suite runs csi-test's suite on the driver at a socket, with volumes of mode mount or block.
func suite(path, mode string) (status int) {
	config := sanity.NewTestConfig()
	config.Address, config.TestVolumeSize, config.TestVolumeAccessType = path, usual, mode
	config.TargetPath, config.StagingPath = filepath.Join(filepath.Dir(path), "target"), filepath.Join(filepath.Dir(path), "staging")
	v := &verdict{}
	if sanity.Test(v, config); v.failed {
		return 1
	}
	return 0
}

// itself starts this program as something else.
func itself(t *testing.T, environment ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	output := &bytes.Buffer{}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = output, output
	return cmd, output
}

// socket starts a driver and returns its socket. The driver runs in its own mount namespace until the test ends, so its mounts end with it.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi-") // t.TempDir would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "csi.sock")
	driver, output := itself(t, "KILN_TEST_RUNS=driver")
	driver.Args = append(driver.Args, "-dir", filepath.Join(dir, "store"), "-endpoint", path)
	driver.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = driver.Process.Signal(syscall.SIGTERM)
		if err := driver.Wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the driver says\n%s", output)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for range 300 {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the driver does not listen")
	return ""
}

// TestSanity: the driver does what the specification says, by csi-test's own suite, and leaves no loop device.
func TestSanity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, ONLY ROOT CAN MOUNT VOLUMES")
	}
	for _, mode := range []string{"mount", "block"} {
		t.Run(mode, func(t *testing.T) {
			path := socket(t)
			run, output := itself(t, "KILN_TEST_RUNS=sanity", "KILN_TEST_SOCKET="+path, "KILN_TEST_MODE="+mode)
			if err := run.Run(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
			t.Log(output)
			devices, err := exec.CommandContext(t.Context(), "losetup", "--list", "--noheadings", "--output", "BACK-FILE").Output()
			if err != nil || strings.Contains(string(devices), filepath.Dir(path)) {
				t.Errorf("loop devices are left: %s %v", devices, err)
			}
		})
	}
}
