package pods

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/golden"
	"github.com/kilnvm/kiln/test/poll"
	"github.com/kilnvm/kiln/test/ports"
)

// virtctl is virtctl v1.9.0 itself.
type virtctl struct {
	*tenant
	program string
}

// command is a run of virtctl in the namespace, with a time limit.
func (v virtctl) command(ctx context.Context, line string) *exec.Cmd {
	command := exec.CommandContext(ctx, v.program, append([]string{"--namespace", v.namespace}, strings.Fields(line)...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	return command
}

// run returns the output of a command, and whether it succeeds.
func (v virtctl) run(line string) (output string, ok bool) {
	ctx, cancel := context.WithTimeout(v.Context(), time.Minute)
	defer cancel()
	out, err := v.command(ctx, line).CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// serves starts a command that serves until it is stopped, and returns when check succeeds.
func (v virtctl) serves(line string, check func() error) error {
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	command, output := v.command(ctx, line), &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return err
	}
	var err error
	poll.Until(time.Minute, func() bool {
		err = check()
		return err == nil
	})
	cancel()
	_ = command.Wait()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, output)
	}
	return err
}

// row is a line of virtctl for a VM or VMI. output is part of what it prints; for a line that fails, part of the reason.
type row struct {
	line   string
	ok     bool
	output string
	// note replaces the output in the page if the output says too little.
	note string
}

// rows are run on a guest that runs without an agent, in this order.
var rows = []row{
	{"version", true, "Server Version", "works: the version of KubeVirt whose API is served, and after it the version of Kiln"},
	{"expand --vm demo", true, "kind: VirtualMachine", "works"},
	{"objectgraph demo", true, "PersistentVolumeClaim", "works"},
	{"pause vm demo", true, "was scheduled to pause", "works"},
	{"unpause vm demo", true, "was scheduled to unpause", "works"},
	{"guestosinfo demo", false, "reported a conflict", "works with a guest agent; without one it fails"},
	{"userlist demo", false, "VMI does not have guest agent connected", "works with a guest agent; without one it fails"},
	{"fslist demo", false, "VMI does not have guest agent connected", "works with a guest agent; without one it fails"},
	{"addvolume demo --volume-name=more", true, "Successfully submitted", "works: the guest has the disk with its next start"},
	{"removevolume demo --volume-name=more", true, "Successfully submitted", "works"},
	{"expose vm demo --name=web --port=80 --target-port=8080", true, "successfully created", "works: it makes a Service"},
	{"credentials set-password demo --user=root --password=x", false, "no secrets assigned to UserPassword AccessCredentials",
		"works for a VM with accessCredentials: the guest agent follows the Secret within two minutes"},
	{"reset demo", true, "was scheduled to reset", "works"},
	{"migrate demo", false, "guests are not migrated", ""},
	{"migrate-cancel demo", false, "could not find the requested resource", "there are no migrations"},
	{"evacuate-cancel vm demo", false, "guests are not migrated", ""},
	{"memory-dump get demo --claim-name=more", false, "memory is not dumped", ""},
	{"vnc screenshot demo --file=/dev/null", false, "screenshots are not served", ""},
	{"vmexport create demo --vm=demo", false, "could not find the requested resource", "exports are not served"},
	{"start demo", false, "VM is already running", "works for a VM that is Halted, Manual or RerunOnFailure"},
	{"restart demo", true, "was scheduled to restart", "works"},
	{"soft-reboot demo", true, "was scheduled to soft-reboot", "works"},
	{"stop demo", true, "was scheduled to stop", "works"},
}

const virtctlHeading = `# virtctl

The table lists what the commands of virtctl v1.9.0 for VMs and VMIs do with Kiln. A test of 'test/pods' runs each command on a guest in a pod, and writes
this page ('make golden').

| command | with Kiln |
|---|---|
| 'virtctl port-forward vm/demo 18080:8080' | works |
| 'virtctl vnc demo --proxy-only' | works |
`

// elsewhere are commands that the test does not run, with the reason.
const elsewhere = `| 'virtctl console demo' | works; it needs a terminal, so the test connects by the client of KubeVirt |
| 'virtctl ssh', 'virtctl scp' | connect as 'port-forward' does; the guest of the test has no SSH server |
| 'virtctl usbredir' | USB devices of clients are not redirected to guests |
| 'virtctl create' | makes manifests, without a cluster; 'kubectl kiln create' makes the same |
| 'virtctl image-upload' | needs CDI, and works as with KubeVirt |
| 'virtctl guestfs' | needs '--image': Kiln has no image of libguestfs tools |
| 'virtctl template' | templates of VMs belong to another project |
`

// commands runs every command of virtctl for VMs and VMIs on a guest that has booted: it works, or says why not. It writes the table of
// docs/reference/virtctl.md. At its end the VM is stopped.
func (v virtctl) commands() {
	v.Helper()
	uid := v.kubectl("get", "vmi", "demo", "-o", "jsonpath={.metadata.uid}")
	web, err1 := ports.Free("127.0.0.1")
	display, err2 := ports.Free("127.0.0.1")
	if err := errors.Join(err1, err2); err != nil {
		v.Fatal(err)
	}
	client := http.Client{Timeout: 10 * time.Second}
	fetched := func() error {
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", web)) //nolint:noctx // the client bounds it
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
	fetchedByPortForward := func() error { return v.serves(fmt.Sprintf("port-forward vm/demo %d:8080", web), fetched) }
	if err := fetchedByPortForward(); err != nil {
		v.Errorf("port-forward: %v", err)
	}
	if err := v.serves(fmt.Sprintf("vnc demo --proxy-only --port=%d", display), func() error { return banner(display) }); err != nil {
		v.Errorf("vnc: %v", err)
	}
	var page strings.Builder
	page.WriteString(virtctlHeading)
	for _, r := range rows {
		boots := v.boots()
		output, ok := v.run(r.line)
		fmt.Fprintf(&page, "| 'virtctl %s' | %s |\n", r.line, cmp.Or(r.note, r.output))
		if ok != r.ok || !strings.Contains(output, r.output) {
			v.Errorf("virtctl %s: succeeds: %t, want %t and '%s': %s", r.line, ok, r.ok, r.output, output)
		}
		switch r.line {
		case "pause vm demo":
			v.paused("demo", true) // before, unpause is refused
		case "reset demo":
			v.bootedByReset(boots+1, fetchedByPortForward)
			if now := v.kubectl("get", "vmi", "demo", "-o", "jsonpath={.metadata.uid}"); now != uid {
				v.Errorf("a reset has made another VMI: %s, was %s", now, uid)
			}
		case "restart demo":
			v.eventually("the VM has another VMI", func() (string, bool) {
				now, _ := shared.Kubectl(v.Context(), "--namespace", v.namespace, "get", "vmi", "demo", "-o", "jsonpath={.metadata.uid}")
				return now, now != "" && now != uid && !strings.Contains(now, "NotFound")
			})
			v.phase("demo", "Running") // until then, the log belongs to the pod before
			v.booted(1)
		}
	}
	page.WriteString(elsewhere)
	golden.Compare(v, "../../docs/reference/virtctl.md", strings.ReplaceAll(page.String(), "'", "`"))
}

// boots returns how many times the guest of the pod has booted.
func (v virtctl) boots() int {
	log, _ := v.reader().log("guest-demo") // there may be no pod
	return strings.Count(log, serves)
}

// booted waits until the guest of a pod has booted so many times.
func (v virtctl) booted(times int) {
	v.Helper()
	v.eventually(fmt.Sprintf("the guest has booted %d times", times), func() (string, bool) {
		boots := v.boots()
		return strconv.Itoa(boots), boots >= times
	})
}

// bootedByReset waits until the guest has booted so many times after a reset. On a busy machine a guest once said nothing for 8 minutes after a reset. A guest
// that answers no more was reset, and gets another reset; one that still answers was not.
func (v virtctl) bootedByReset(times int, answers func() error) {
	v.Helper()
	if poll.Until(patience/2, func() bool { return v.boots() >= times }) {
		return
	}
	if answers() == nil && v.boots() < times {
		v.Fatal("the guest answers, and did not boot after a reset")
	}
	output, ok := v.run("reset demo")
	v.Logf("the guest is silent after a reset; another one: succeeds: %t: %s", ok, output)
	v.booted(times)
}

// banner reads the first words of a VNC server.
func banner(port int) error {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	text := make([]byte, 4)
	if _, err := io.ReadFull(conn, text); err != nil || string(text) != "RFB " {
		return fmt.Errorf("the display says '%s': %w", text, err)
	}
	return nil
}
