package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/kilnvm/kiln/internal/workbench/cpucheck"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// cpuNode is a node whose agent reports features by a label, such as cpu-feature.kilnvm.io/.
func cpuNode(name, label string, features ...string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  labels:\n    kubernetes.io/arch: amd64\n", name)
	for _, feature := range features {
		text += fmt.Sprintf("    %s%s: \"true\"\n", label, feature)
	}
	return text
}

// cpuGuest is a VM with a GuestHardware, whose CPU was recorded for host-model.
func cpuGuest(name, uid string, features ...string) string {
	return fmt.Sprintf(`apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s, namespace: default, uid: %s, annotations: {kilnvm.io/identity: %s}}
spec: {runStrategy: Halted, template: {spec: {architecture: amd64, domain: {memory: {guest: 1Gi}, cpu: {cores: 1}, devices: {}}}}}
---
apiVersion: kilnvm.io/v1alpha1
kind: GuestHardware
metadata: {name: %s, namespace: default, resourceVersion: "7"}
spec:
  identity: %s
  hardware: {schemaVersion: 2, defaults: "1", digest: "sha256:%064d", cpu: {requested: host-model, model: EPYC, features: [%s],
    topology: {sockets: 1, cores: 1, threads: 1}}}
status: {virtualMachineUID: %s}`, name, uid, uid, name, uid, 0, strings.Join(features, ", "), uid)
}

const kilnFeature, kubevirtFeature = "cpu-feature.kilnvm.io/", "cpu-feature.node.kubevirt.io/"

// TestCPUCheck: exactly the guests with a feature that vanished are named, in a cluster and in a dump of it.
func TestCPUCheck(t *testing.T) {
	t.Parallel()
	unrecorded := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: new, namespace: default, uid: u4}\n" +
		"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}"
	pinned := strings.Replace(cpuGuest("pinned", "u3", "hle", "sse2"), "architecture: amd64,",
		"architecture: amd64, nodeSelector: {kubernetes.io/hostname: b},", 1)
	objects := []string{cpuNode("a", kilnFeature, "hle", "md-clear", "sse2"), cpuNode("b", kilnFeature, "md-clear", "sse2"), cpuNode("c", kubevirtFeature, "sse2"),
		cpuGuest("tsx", "u1", "hle", "sse2"), cpuGuest("web", "u2", "md-clear", "sse2"), pinned, unrecorded}
	objects[1] = strings.Replace(objects[1], "  labels:\n", "  labels:\n    kubernetes.io/hostname: b\n", 1)
	flags := (&apiServer{}).serve(t, objects...)
	_, dump := write(t, strings.Join(objects, "\n---\n"))
	for _, source := range [][]string{append([]string{"-A"}, flags...), {"-f", dump}} {
		args := append([]string{"cpu", "check"}, source...)
		got := call(t, "", args...)
		if cmdutil.ExitStatus(got.err) != 1 {
			t.Errorf("exit status %d: %v\n%s%s", cmdutil.ExitStatus(got.err), got.err, got.out, got.errOut)
		}
		want := "NAMESPACE NAME CPU OFFERED NODES FINDING\n" +
			"default vm/pinned EPYC nowhere 0/1 no node offers the recorded CPU; missing on node 'b': CPU features hle; its nodes offer these features against " +
			"flaws of CPUs, and it lacks them: md-clear\n" +
			"default vm/tsx EPYC somewhere 1/2 some nodes lack the recorded CPU; missing on node 'b': CPU features hle; its nodes offer these features against " +
			"flaws of CPUs, and it lacks them: md-clear\n"
		if squeezed := squeeze(got.out); squeezed != want {
			t.Errorf("%s\nwant\n%s", squeezed, want)
		}
		for _, line := range []string{"1 node reports no CPUs, so no guest is judged by them: c\n", "3 CPUs of host-model were not seen to run yet\n",
			"1 guest records the CPU of the next boot\n",
			"3 recorded CPUs on 2 nodes: 1 can start nowhere, 1 only on some nodes, 2 without features against flaws of CPUs\n"} {
			if !strings.Contains(got.errOut, line) {
				t.Errorf("'%s' is missing in\n%s", line, got.errOut)
			}
		}
		if named := call(t, "", append(args, "-o", "name")...); named.out != "virtualmachine.kubevirt.io/pinned\n" || cmdutil.ExitStatus(named.err) != 1 {
			t.Errorf("%v: %s", named.err, named.out)
		}
		var check cpucheck.Check
		if err := json.Unmarshal([]byte(call(t, "", append(args, "-o", "json")...).out), &check); err != nil || len(check.Guests) != 3 || check.Nodes != 2 ||
			check.Unrecorded != 1 || check.Guests[2].Offered != fleet.Everywhere || check.Guests[1].Lacking[0].Missing != "CPU features hle" {
			t.Errorf("%v: %+v", err, check)
		}
	}
}

// TestCPUCheckOfLabels: what runs the guests decides which labels count, and a cluster without them is a fault.
func TestCPUCheckOfLabels(t *testing.T) {
	t.Parallel()
	_, dump := write(t, cpuNode("a", kubevirtFeature, "sse2")+"---\n"+cpuGuest("web", "u1", "sse2"))
	if got := call(t, "", "cpu", "check", "-f", dump, "--runtime", "kubevirt"); got.err != nil || got.out != "" ||
		!strings.Contains(got.errOut, "1 recorded CPU on 1 node: 0 can start nowhere") {
		t.Errorf("%v: %s%s", got.err, got.out, got.errOut)
	}
	got := call(t, "", "cpu", "check", "-f", dump, "--runtime", "pod")
	if cmdutil.ExitStatus(got.err) != 2 ||
		!strings.HasSuffix(got.err.Error(), "none of 1 nodes reports which CPUs it offers: 'launcher cpu' writes labels 'cpu-feature.kilnvm.io/...'") {
		t.Errorf("%v", got.err)
	}
	_, dump = write(t, cpuNode("a", kilnFeature, "sse2")+"    kilnvm.io/cpu-emulated: \"true\"\n---\n"+cpuGuest("web", "u1", "sse2"))
	got = call(t, "", "cpu", "check", "-f", dump)
	if cmdutil.ExitStatus(got.err) != 2 || !strings.HasSuffix(got.err.Error(),
		". 1 of them report CPUs of guests without KVM (useEmulation): name the configuration of the cluster with --config FILE") {
		t.Errorf("%v", got.err)
	}
	_, emulates := write(t, "developerConfiguration: {useEmulation: true}\n")
	if got = call(t, "", "cpu", "check", "-f", dump, "--config", emulates); got.err != nil {
		t.Errorf("%v: %s", got.err, got.errOut)
	}
	forged := strings.Replace(cpuGuest("web", "u1", "sse2"), "sse2", `"a\x1b[31m"`, 1)
	_, dump = write(t, cpuNode("a", kilnFeature, "sse2")+"---\n"+forged)
	got = call(t, "", "cpu", "check", "-f", dump)
	if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, "error: VirtualMachine default/web: GuestHardware 'web': spec.hardware: cpu.features") ||
		strings.Contains(got.errOut, "\x1b") {
		t.Errorf("%v: %q", got.err, got.errOut)
	}
}

// squeeze returns a table with one space between columns.
func squeeze(table string) string {
	var lines strings.Builder
	for line := range strings.Lines(table) {
		lines.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return lines.String()
}

// TestRepinCPU: a dry run says what the guest notices on which node and changes nothing, and the command marks only the CPU of the record, once.
func TestRepinCPU(t *testing.T) {
	t.Parallel()
	disables := strings.Replace(cpuGuest("web", "u1", "hle", "sse2"), "cpu: {cores: 1}",
		"cpu: {cores: 1, features: [{name: avx2, policy: disable}, {name: md-clear, policy: optional}]}", 1)
	objects := []string{cpuNode("a", kilnFeature, "avx2", "hle", "sse2"), cpuNode("b", kilnFeature, "md-clear", "sse2"),
		cpuNode("c", kilnFeature, "md-clear", "sse2"), disables, strings.Replace(cpuGuest("named", "u2"), "requested: host-model", "requested: EPYC", 1),
		strings.Replace(cpuGuest("again", "u5"), "requested: host-model", "requested: none", 1),
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: new, namespace: default, uid: u4}\n" +
			"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web, namespace: default, uid: i1}\nspec: {domain: {devices: {}}}\n" +
			"status: {phase: Scheduling}"}
	var patches []string
	refuse := false
	server := &apiServer{answer: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		patches = append(patches, r.URL.Path+" "+string(body))
		if refuse {
			reply(w, http.StatusForbidden, apierrors.NewForbidden(schema.GroupResource{Resource: "guesthardwares"}, "web", nil).Status())
		} else {
			reply(w, http.StatusOK, map[string]any{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestHardware", "metadata": map[string]any{"name": "web"}})
		}
		return true
	}}
	args := append([]string{"repin", "vm/web", "--cpu", "-n", "default"}, server.serve(t, objects...)...)
	const change = "  cpu: EPYC -> the CPU of the node of the next boot\nat the next start: breaks the guest's hardware\n" +
		"  the CPU changes on b, c: without hle, with md-clear   <- breaks\n"
	dry := call(t, "", append(args, "--dry-run")...)
	if want := "VirtualMachine default/web (dry run)\n" + change; dry.err != nil || dry.out != want || len(patches) > 0 {
		t.Errorf("%v, %q:\n%s%s\nwant\n%s", dry.err, patches, dry.out, dry.errOut, want)
	}
	got := call(t, "", args...)
	const wantPatch = `/apis/kilnvm.io/v1alpha1/namespaces/default/guesthardwares/web ` +
		`{"metadata":{"resourceVersion":"7"},"spec":{"hardware":{"cpu":{"requested":"none"}}}}`
	if want := "VirtualMachine default/web\n" + change; got.err != nil || got.out != want || !slices.Equal(patches, []string{wantPatch}) {
		t.Errorf("%v, %q, want %q:\n%s%s\nwant\n%s", got.err, patches, wantPatch, got.out, got.errOut, want)
	}
	if want := "'kubectl delete vmi web -n default' has it start with another one"; !strings.Contains(got.errOut, want) || strings.Contains(dry.errOut, want) {
		t.Errorf("a guest that waits for a node: '%s', and in the dry run '%s'", got.errOut, dry.errOut)
	}
	refuse = true
	for name, want := range map[string]string{
		"again": "the next boot already records the CPU of its node", "new": "no CPU is recorded",
		"web": "Users who may 'administer' guesthardwares may take a new CPU", "named": "spec.domain.cpu.model 'EPYC' decides the CPU",
	} {
		args[1] = "vm/" + name
		if got := call(t, "", args...); cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	if got := call(t, "", append(args, "--presets")...); got.err == nil {
		t.Error("--cpu is combined with pins")
	}
	args[1], server.forbidden = "vm/web", []string{"nodes"}
	if got := call(t, "", append(args, "--dry-run")...); got.err != nil || !strings.Contains(got.out, "what the guest notices is not known: reading the nodes: ") {
		t.Errorf("%v: %s", got.err, got.out)
	}
}
