package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/golden"
)

// virtctl is virtctl v1.9.0 itself.
type virtctl struct {
	*tenant
	program string
}

func newVirtctl(n *tenant) virtctl {
	n.Helper()
	program, err := filepath.Abs("../../bin/tests/virtctl")
	if err != nil {
		n.Fatal(err)
	}
	build := exec.CommandContext(n.Context(), "go", "-C", "../virtctl", "build", "-o", program,
		"-ldflags", "-s -w -X kubevirt.io/client-go/version.gitVersion=v1.9.0", "kubevirt.io/kubevirt/cmd/virtctl")
	if out, err := build.CombinedOutput(); err != nil {
		n.Fatalf("%v: %s", err, out)
	}
	return virtctl{n, program}
}

// command is a run of virtctl in the namespace, with a time limit.
func (v virtctl) command(ctx context.Context, line string) *exec.Cmd {
	command := exec.CommandContext(ctx, v.program, append([]string{"--namespace", v.namespace}, strings.Fields(line)...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	return command
}

// run returns what a command prints, and whether it succeeds.
func (v virtctl) run(line string) (said string, ok bool) {
	ctx, cancel := context.WithTimeout(v.Context(), time.Minute)
	defer cancel()
	out, err := v.command(ctx, line).CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// serves starts a command that serves until it is stopped, and returns when check succeeds.
func (v virtctl) serves(line string, check func() error) error {
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	command, said := v.command(ctx, line), &bytes.Buffer{}
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = check(); err == nil {
			break
		}
	}
	cancel()
	_ = command.Wait()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// row is a line of virtctl, and what comes of it. said is part of what it prints; one that fails says why.
type row struct {
	line string
	ok   bool
	said string
	// note is for the page, where what is printed says too little.
	note string
}

const (
	noAgent   = "VMI does not have guest agent connected"
	noMigrate = "Kiln does not serve 'migrate' of KubeVirt: guests are not migrated"
)

// rows are run on a guest that runs without an agent, in this order.
var rows = []row{
	{"version", true, "Server Version", "prints the version of Kiln"},
	{"expand --vm demo", true, "kind: VirtualMachine", "prints the VM without instancetype and preference"},
	{"objectgraph demo", true, "PersistentVolumeClaim", "prints what the VM depends on"},
	{"pause vm demo", true, "was scheduled to pause", ""},
	{"unpause vm demo", true, "was scheduled to unpause", ""},
	{"guestosinfo demo", false, "", "needs a guest agent"},
	{"userlist demo", false, "", "needs a guest agent"},
	{"fslist demo", false, "", "needs a guest agent"},
	{"addvolume demo --volume-name=more", true, "", "the disk is there with the next start"},
	{"removevolume demo --volume-name=more", true, "", ""},
	{"reset demo", true, "", ""},
	{"migrate demo", false, noMigrate, ""},
	{"memory-dump get demo --claim-name=more", false, "", ""},
	{"vnc screenshot demo --file=/dev/null", false, "screenshots are not served", ""},
	{"usbredir 1234:5678 demo", false, "", ""},
	{"start demo", false, "VM is already running", "starts a VM that is Halted, Manual or RerunOnFailure"},
	{"restart demo", true, "", ""},
	{"soft-reboot demo", true, "", ""},
	{"stop demo", true, "", ""},
}

// TestVirtctl: every command of virtctl for VMs and VMIs works, or says why not. It writes the table of docs/reference/virtctl.md.
func TestVirtctl(t *testing.T) {
	n := newTenant(t, "virtctl")
	n.blockClaim("block")
	n.fileClaim("file")
	n.blockClaim("more")
	n.apply(seed("kiln.mark=first kiln.serve=8080"))
	n.apply(vm("demo"))
	n.phase("demo", "Running")
	n.console("demo", "KILN-SERVES guest at ")
	v := newVirtctl(n)

	fetched := func() error {
		response, err := http.Get("http://127.0.0.1:18080/") //nolint:noctx // a minute bounds it
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
	if err := v.serves("port-forward vm/demo 18080:8080", fetched); err != nil {
		t.Errorf("port-forward: %v", err)
	}
	for _, r := range rows {
		said, ok := v.run(r.line)
		t.Logf("%s: %t %s", r.line, ok, said)
		if ok != r.ok || !strings.Contains(said, r.said) {
			t.Errorf("virtctl %s: succeeds: %t, want %t and '%s': %s", r.line, ok, r.ok, r.said, said)
		}
		if r.line == "restart demo" {
			n.eventually("the guest runs again", func() (string, bool) {
				log, _ := shared.Kubectl(n.Context(), "--namespace", n.namespace, "logs", "guest-demo")
				return log, strings.Contains(log, "KILN-SERVES")
			})
		}
	}
	_ = golden.Compare
}
