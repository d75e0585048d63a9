package virtlauncher

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/test/cgroups"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/poll"
	"github.com/kilnvm/kiln/test/virtlauncher/images"
)

// space is a namespace for one test.
type space struct {
	*testing.T
	name, virtctlProgram string
	reader               reader
}

func newSpace(t *testing.T) space {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	g := space{t, name, cluster.Virtctl(t, "../.."), newReader(t, name)}
	if out, err := shared.Kubectl(t.Context(), "create", "namespace", g.name); err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"get", "vm,vmi,pods", "-o", "yaml"}, {"logs", "--all-containers", "--tail=100", "-l", "kubevirt.io=virt-launcher"}} {
				out, _ := shared.Kubectl(context.Background(), append([]string{"--namespace", g.name}, args...)...)
				t.Log(out)
			}
		}
		if out, err := shared.Kubectl(context.Background(), "delete", "namespace", g.name, "--wait=false"); err != nil {
			t.Error(err, out)
		}
	})
	return g
}

// kubectl runs kubectl in the namespace. It tries again if a busy machine let the connection time out before anything was sent, and if kubectl only reads, also
// afterwards.
func (g space) kubectl(args ...string) (out string) {
	g.Helper()
	var err error
	reads := slices.Contains(args, "get") || slices.Contains(args, "logs") || slices.Contains(args, "rollout") || slices.Contains(args, "api-resources")
	for began := time.Now(); ; time.Sleep(time.Second) {
		out, err = shared.Kubectl(g.Context(), append([]string{"--namespace", g.name}, args...)...)
		again := strings.Contains(out, "TLS handshake timeout") || reads && unreached.MatchString(out)
		if err == nil || !again || time.Since(began) > patience {
			break
		}
	}
	if err != nil {
		g.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// unreached matches what kubectl says about servers that do not answer in time.
var unreached = regexp.MustCompile(`Unable to connect|context deadline exceeded|Client\.Timeout|request timed out|connection lost`)

// virtctl runs virtctl v1.9.0 in the namespace.
func (g space) virtctl(args ...string) {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), g.virtctlProgram, append([]string{"--namespace", g.name}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		g.Fatalf("virtctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// pause pauses the guest of a VM, and lets it go on. virt-api asks virt-launcher through virt-handler, which writes what became of it.
func (g space) pause(name string) {
	g.Helper()
	for _, command := range []string{"pause", "unpause"} {
		g.virtctl(command, "vm", name)
		g.eventually(name+" has done: "+command, func() (bool, any) {
			vmi := g.vmi(name)
			return hasCondition(vmi, v1.VirtualMachineInstancePaused) == (command == "pause"), vmi.Status.Conditions
		})
	}
}

// create creates an object.
func (g space) create(text string) {
	g.Helper()
	file := filepath.Join(g.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
	g.kubectl("create", "-f", file)
}

// patience bounds what a test waits for: guests are emulated, on a busy machine.
const patience = guest.BootTimeout

// eventually waits for what KubeVirt does; seen is what there was instead at the end.
func (g space) eventually(what string, done func() (is bool, seen any)) {
	g.Helper()
	var seen any
	if !poll.Until(patience, func() (is bool) {
		is, seen = done()
		return is
	}) {
		g.Fatalf("did not come to pass: %s: %v", what, seen)
	}
}

// vm reads a VM.
func (g space) vm(name string) (vm v1.VirtualMachine) {
	g.Helper()
	out := g.kubectl("get", "vm", name, "-o", "json")
	if err := json.Unmarshal([]byte(out), &vm); err != nil {
		g.Fatal(err, out)
	}
	return vm
}

// runs waits until the guest of a VM runs, is ready, and has a MAC address in its status. virt-controller sets condition Ready after virt-handler has set the
// phase. A VMI with the UID other is not waited for.
func (g space) runs(name, other string) (vmi v1.VirtualMachineInstance) {
	g.Helper()
	g.eventually(name+" runs", func() (bool, any) {
		vmi = g.vmi(name)
		running := vmi.Status.Phase == v1.Running && hasCondition(vmi, v1.VirtualMachineInstanceReady)
		return running && string(vmi.UID) != other && len(vmi.Status.Interfaces) > 0, vmi.Status
	})
	return vmi
}

// pod returns the name of the pod that runs a VMI on its node. A pod from which it was migrated may still be there.
func (g space) pod(vmi v1.VirtualMachineInstance) string {
	g.Helper()
	pods := strings.Fields(g.kubectl("get", "pods", "-l", v1.CreatedByLabel+"="+string(vmi.UID), "-o", "name",
		"--field-selector", "spec.nodeName="+vmi.Status.NodeName+",status.phase=Running"))
	if len(pods) != 1 {
		g.Fatalf("the VMI has the pods %v on %s, want one", pods, vmi.Status.NodeName)
	}
	return pods[0]
}

// console returns what the guest has written to its first serial port in this pod: the log of a container that KubeVirt adds.
func (g space) console(vmi v1.VirtualMachineInstance) string {
	g.Helper()
	return g.kubectl("logs", g.pod(vmi), "-c", console)
}

// address returns the address at which the guest of a VM answers HTTP: its pod's.
func (g space) address(name string) string {
	g.Helper()
	if interfaces := g.vmi(name).Status.Interfaces; len(interfaces) > 0 {
		return interfaces[0].IP
	}
	return ""
}

// ask asks a guest by HTTP. It is emulated, on a busy machine, so it may take long to answer.
func ask(ctx context.Context, address, path string) (string, error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: shared.Dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(text), err
}

// boot returns the ID of the guest's boot, which its kernel chooses anew at each boot. The guest itself answers.
func (g space) boot(name string) (id string) {
	g.Helper()
	g.eventually(name+" says which boot this is", func() (bool, any) {
		text, err := ask(g.Context(), g.address(name), "/boot")
		id = strings.TrimSpace(text)
		return err == nil && id != "", err
	})
	return id
}

// judge compares what the guest reports with what virt-handler and virt-controller have written, and returns the report.
func (g space) judge(vmi v1.VirtualMachineInstance) guest.Report {
	g.Helper()
	report, status := g.reports(vmi), vmi.Status
	known := slices.ContainsFunc(nodes, func(n *node.Node) bool { return n.Name == status.NodeName })
	if !known || status.RuntimeUser != 107 || status.LauncherContainerImageVersion != images.Name("virt-launcher") ||
		!hasCondition(vmi, v1.VirtualMachineInstanceReady) {
		g.Errorf("the VMI is on node '%s', of user %d, of image '%s', with conditions %v", status.NodeName, status.RuntimeUser,
			status.LauncherContainerImageVersion, status.Conditions)
	}
	if !hasCondition(vmi, v1.VirtualMachineInstanceIsMigratable) {
		g.Errorf("the VMI cannot be migrated: %v", status.Conditions)
	}
	if len(report.Disks) != 1 || report.Disks[0].Serial != "of-kubevirt" {
		g.Errorf("the guest sees the disks %+v, want one with serial 'of-kubevirt'", report.Disks)
	}
	if len(report.NICs) != 1 || report.NICs[0].MAC != status.Interfaces[0].MAC {
		g.Errorf("the guest sees the network cards %+v, want one with MAC address %s", report.NICs, status.Interfaces[0].MAC)
	}
	if vendor := report.DMI["sys_vendor"]; vendor != "KubeVirt" {
		g.Errorf("the guest's vendor is '%s', want KubeVirt's", vendor)
	}
	return report
}

// gone waits until there is nothing of some kinds.
func (g space) gone(kinds string) {
	g.Helper()
	g.eventually("no "+kinds, func() (bool, any) {
		out := g.kubectl("get", kinds, "--ignore-not-found", "-o", "name")
		return out == "", out
	})
}

// processes returns the folders in /proc of all processes that run in pods, by the UIDs of the pods.
func (g space) processes(pods ...string) (folders []string) {
	g.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		g.Fatal(err)
	}
	for _, file := range files {
		names, err := os.ReadFile(file) // an error: the process has ended
		if err == nil && slices.ContainsFunc(pods, func(uid string) bool { return strings.Contains(string(names), "pod"+uid) }) {
			folders = append(folders, filepath.Dir(file))
		}
	}
	return folders
}

// traces returns the programs that run in pods, and the cgroups of the pods, on all nodes. Both are found by the UIDs of the pods.
func (g space) traces(pods ...string) (programs, folders []string) {
	g.Helper()
	for _, folder := range g.processes(pods...) {
		if program, err := os.Readlink(filepath.Join(folder, "exe")); err == nil {
			programs = append(programs, program)
		}
	}
	groups, err := cgroups.Read()
	if err != nil {
		g.Fatal(err)
	}
	for _, n := range nodes {
		for _, uid := range pods {
			switch folder, err := groups.Pod("memory", n.Cgroup, uid); {
			case err == nil:
				folders = append(folders, folder)
			case !errors.Is(err, fs.ErrNotExist):
				g.Fatal(err)
			}
		}
	}
	return programs, folders
}

// podUID returns the UID of the only pod of a VMI. It fails the test unless traces finds the pod's QEMU and cgroup: what it does not find it cannot miss later.
func (g space) podUID(vmi v1.VirtualMachineInstance) string {
	g.Helper()
	uid := g.kubectl("get", g.pod(vmi), "-o", "jsonpath={.metadata.uid}")
	programs, folders := g.traces(uid)
	if len(folders) != 1 || !slices.ContainsFunc(programs, func(program string) bool { return strings.Contains(program, "qemu-system") }) {
		g.Errorf("pod %s runs %v, and has the cgroups %v; want QEMU and one cgroup", uid, programs, folders)
	}
	return uid
}

func hasCondition(vmi v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) bool {
	for _, c := range vmi.Status.Conditions {
		if c.Type == kind {
			return c.Status == "True"
		}
	}
	return false
}
