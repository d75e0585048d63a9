package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/poll"
)

// printed finds the folders in the output of 'make run', by runtime: the folder of everything, and on a bare machine libvirt's folder.
var printed = map[string]*regexp.Regexp{
	"node": regexp.MustCompile(`KUBECONFIG=(\S+)/controlplane/|socket=(\S+?)%2Frun%2F`),
	"pod":  regexp.MustCompile(`KUBECONFIG=(\S+)/nodes/admin.kubeconfig()`),
}

// However 'make run' ends, no process of it stays.
func TestNothingStays(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range []struct {
		name, runtime string
		end           syscall.Signal
		clean         bool // nobody is left to remove the folders after SIGKILL; the next run does
	}{
		{"Ctrl-C", "node", syscall.SIGINT, true},
		{"killed", "node", syscall.SIGKILL, false},
		{"Ctrl-C, pods", "pod", syscall.SIGINT, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.clean || test.runtime == "pod" {
				nightly.Only(t) // TestNothingStays of test/controlplane and of test/libvirt kill their starters too; test/pods boots guests in pods
			}
			if test.runtime == "pod" {
				node.Require(t)
			}
			cmd, folders := start(t, binary, test.runtime)
			if found := using(t, folders); len(found) < 6 { // etcd, API server, controllers, webhook, launcher, libvirt or QEMU
				t.Errorf("this test does not see what runs: %q", found)
			}
			if err := syscall.Kill(-cmd.Process.Pid, test.end); err != nil { // the whole process group, as a terminal does
				t.Fatal(err)
			}
			if err := cmd.Wait(); (err == nil) != test.clean {
				t.Errorf("it ended with %v", err)
			}
			var left []string
			if !poll.Until(time.Minute, func() bool {
				left = using(t, folders)
				return len(left) == 0
			}) {
				t.Errorf("still running after a minute:\n%s", strings.Join(left, "\n"))
			}
			for _, folder := range folders {
				if _, err := os.Stat(folder); test.clean && !os.IsNotExist(err) {
					t.Errorf("'%s' stays: %v", folder, err)
				}
				os.RemoveAll(folder)
			}
		})
	}
}

// start runs the demo until its guest is up, and gives the folders that its processes are started with.
func start(t *testing.T, binary, runtimeName string) (*exec.Cmd, []string) {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "KUBECONFIG=", "RUNTIME="+runtimeName)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The death signal is sent when the thread ends that started the process, so that this one stays until the test has ended.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it has ended, unless the test failed
		_ = cmd.Wait()
	})
	var output bytes.Buffer
	var folders []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if match := printed[runtimeName].FindStringSubmatch(lines.Text()); match != nil {
			folders = append(folders, strings.ReplaceAll(match[1]+match[2], "%2F", "/"))
		}
		if len(folders) == map[string]int{"node": 2, "pod": 1}[runtimeName] {
			for _, want := range []string{"runtime: " + runtimeName, "is: running", "pc-q35-",
				"conflicts with VirtualMachineClusterInstancetype 'small'", "the guest says: 2 CPUs"} {
				if !strings.Contains(output.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, output.String())
				}
			}
			return cmd, folders
		}
	}
	t.Fatalf("it did not start:\n%s%s", output.String(), failed.String())
	return nil, nil
}

// using are the processes that run from, or were started with, one of these folders.
func using(t *testing.T, folders []string) (found []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		line, err := os.ReadFile(process)
		if err != nil {
			continue // it has just ended
		}
		for _, folder := range folders {
			if bytes.Contains(line, []byte(folder+"/")) {
				found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
			}
		}
	}
	return found
}
