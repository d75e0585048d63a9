package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench/audit"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/validate"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// A VM of each kind of verdict of KubeVirt, a VM that Kiln admits, and one that is admitted on a change only: its template had the label before.
const (
	auditedVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME, namespace: shop, resourceVersion: "7", uid: 5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {app: shop}}
    spec:
      architecture: amd64
      domain: {devices: {}, memory: {guest: 1Gi}}
      terminationGracePeriodSeconds: 30
status: {printableStatus: Running}
`
	auditedVMI = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: NAME, namespace: shop, labels: {kubevirt.io/nodeName: a}, ownerReferences: OWNERS}
spec: {architecture: amd64, domain: {devices: {}, memory: {guest: 0}}}
`
)

// audited returns a VM with a name, and with a part replaced.
func audited(name, old, replacement string) string {
	return strings.Replace(strings.Replace(auditedVM, "NAME", name, 1), old, replacement, 1)
}

func auditedObjects() []string {
	owner := `[{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: good, uid: u, controller: true}]`
	return []string{
		audited("good", "", ""),
		audited("grace", "Seconds: 30", "Seconds: -1"),
		audited("disk", "devices: {}", "devices: {disks: [{name: a}]}"),
		audited("unfit", "{guest: 1Gi}", "{}"),
		audited("label", "app: shop", `app: "our shop"`),
		strings.NewReplacer("NAME", "good", "OWNERS", owner).Replace(auditedVMI),
		strings.NewReplacer("NAME", "alone", "OWNERS", "[]").Replace(auditedVMI),
		"{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: none}, " +
			"spec: {cpu: {guest: 0}, memory: {guest: 1Gi}}}\n",
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {kilnvm.io/admission: warn}}}\n",
		"{apiVersion: v1, kind: Namespace, metadata: {name: plain}}\n",
	}
}

// TestAudit: a cluster without Kiln's kinds, and a dump of it, have the same audit, which says what refuses what, when, and what KubeVirt does.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir, _ := write(t, auditedObjects()...)
	server := apiServer{without: "kilnvm.io"}
	for _, from := range [][]string{
		{"-f", dir},
		append([]string{"-A"}, server.serve(t, auditedObjects()...)...),
	} {
		got := call(t, "", append([]string{"audit", "--runtime", "kubevirt", "-o", "json"}, from...)...)
		var a audit.Audit
		if err := json.Unmarshal([]byte(got.out), &a); err != nil || cmdutil.ExitStatus(got.err) != 1 {
			t.Fatalf("%v, %v: %s%s", err, got.err, got.out, got.errOut)
		}
		var found []string
		for _, o := range a.Objects {
			for _, f := range o.Findings {
				found = append(found, strings.Join([]string{o.Name, f.Rule, f.Field, string(f.KubeVirt), strings.Join(f.Refuses, " ")}, " | "))
			}
		}
		want := []string{
			"none | instancetype/cpus | spec.cpu.guest | " + string(validate.KubeVirtOn("instancetype/cpus")) + " | create change",
			"disk | disks/disk-volume | spec.template.spec.domain.devices.disks[0].name | refuses | create change start",
			"grace | placement/grace-period | spec.template.spec.terminationGracePeriodSeconds | admits | create change start",
			"label | security/template-labels | spec.template.metadata.labels[app] | admits | create",
			"unfit | memory/given | spec.template.spec.domain.memory.guest | refuses the VMI | create change start",
			"alone | memory/guest | spec.domain.memory.guest | refuses some | create",
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%v (-want +got):\n%s", from, diff)
		}
		names := call(t, "", append([]string{"audit", "--runtime", "kubevirt", "-o", "name"}, from...)...)
		const wanted = "virtualmachineclusterinstancetype.instancetype.kubevirt.io/none\nvirtualmachine.kubevirt.io/disk\nvirtualmachine.kubevirt.io/grace\n" +
			"virtualmachine.kubevirt.io/label\nvirtualmachine.kubevirt.io/unfit\nvirtualmachineinstance.kubevirt.io/alone\n"
		if diff := cmp.Diff(wanted, names.out); diff != "" || cmdutil.ExitStatus(names.err) != 1 {
			t.Errorf("%v -o name: %v (-want +got):\n%s", from, names.err, diff)
		}
		wide := call(t, "", append([]string{"audit", "--runtime", "kubevirt", "-o", "wide"}, from...)...)
		if head, _, _ := strings.Cut(wide.out, "\n"); !strings.Contains(head, "EXAMPLE") || !strings.Contains(head, "FIELD") {
			t.Errorf("%v -o wide has no column for the field: %s", from, head)
		}
		judged := map[string]int{"VirtualMachine": 5, "VirtualMachineInstance": 1, "VirtualMachineClusterInstancetype": 1}
		if diff := cmp.Diff(judged, a.Judged) + cmp.Diff([]audit.Namespace{{Name: "shop", Admission: "warn"}}, a.Namespaces); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAuditBeforeKilnPins: before Kiln is installed, no VM is pinned. The start of a VM with an instancetype is judged with what KubeVirt expands.
func TestAuditBeforeKilnPins(t *testing.T) {
	t.Parallel()
	const size = "{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: small}, " +
		"spec: {cpu: {guest: 2}, memory: {guest: 1Gi}}}\n"
	vm := strings.Replace(audited("sized", "Seconds: 30", "Seconds: -1"), ", memory: {guest: 1Gi}", "", 1)
	vm = strings.Replace(vm, "  runStrategy: Always\n", "  runStrategy: Always\n  instancetype: {name: small}\n", 1)
	dir, _ := write(t, vm, size)
	got := call(t, "", "audit", "--runtime", "kubevirt", "-f", dir, "-o", "json")
	var a audit.Audit
	if err := json.Unmarshal([]byte(got.out), &a); err != nil || cmdutil.ExitStatus(got.err) != 1 || len(a.Unjudged) > 0 || len(a.Objects) != 1 {
		t.Fatalf("%v, %v: %s%s", err, got.err, got.out, got.errOut)
	}
	if f := a.Objects[0].Findings; len(f) != 1 || f[0].Rule != "placement/grace-period" || strings.Join(f[0].Refuses, " ") != "create change start" {
		t.Errorf("found %+v", f)
	}
}

// TestAuditText: the text names rules with an example, objects with the lines of files, and counts; control characters of tenants are replaced.
func TestAuditText(t *testing.T) {
	t.Parallel()
	hostile := audited("disk", "devices: {}", `devices: {disks: [{name: "a\x1b[2J\n"}]}`)
	_, file := write(t, hostile)
	got := call(t, "", "audit", "--runtime", "kubevirt", "-f", file)
	for _, part := range []string{
		"RULE ", "shop vm/disk\n", "disks/", "all.yaml:10)", "1 object judged by the rules of Kiln beside KubeVirt v1.9, 1 would be refused by ",
	} {
		if !strings.Contains(got.out+got.errOut, part) {
			t.Errorf("'%s' is missing:\n%s%s", part, got.out, got.errOut)
		}
	}
	if strings.Contains(got.out+got.errOut, "\x1b") || cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("%v: %q", got.err, got.out+got.errOut)
	}
}

// TestKindsOfAuditsHaveShortNames: kubectl finds the kinds that an audit prints, and the kinds in the command of its help, by the names of
// KubeVirt's definitions.
func TestKindsOfAuditsHaveShortNames(t *testing.T) {
	t.Parallel()
	known := map[string]string{"namespace": "Namespace", "controllerrevision": "ControllerRevision", "kubevirt": "KubeVirt"}
	files, err := filepath.Glob("../../manifests/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensions.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			t.Fatal(err)
		}
		for _, name := range definition.Spec.Names.ShortNames {
			known[name] = definition.Spec.Names.Kind
		}
	}
	for kind, name := range shortKinds {
		if known[name] != kind {
			t.Errorf("'%s' is a name of kind '%s', want %s", name, known[name], kind)
		}
	}
	command := regexp.MustCompile(`kubectl get (\S+) -A`).FindStringSubmatch(call(t, "", "audit", "--help").out)
	if command == nil {
		t.Fatal("the help has no command for a dump")
	}
	for name := range strings.SplitSeq(command[1], ",") {
		if known[name] == "" {
			t.Errorf("the help names '%s', which no definition has", name)
		}
	}
}

// TestAuditReadsWhatItMay: what the user may not read is named, and the rest is judged.
func TestAuditReadsWhatItMay(t *testing.T) {
	t.Parallel()
	for forbidden, names := range map[string]string{
		"virtualmachineinstances": "VirtualMachineInstance: ", "virtualmachines": "VirtualMachine: ", "namespaces": "the label kilnvm.io/admission of namespaces",
	} {
		server := apiServer{forbidden: []string{forbidden}}
		got := call(t, "", append([]string{"audit", "-A", "--runtime", "kubevirt"}, server.serve(t, auditedObjects()...)...)...)
		status := 2
		if forbidden == "namespaces" {
			status = 1
		}
		if cmdutil.ExitStatus(got.err) != status || !strings.Contains(got.errOut, names) || !strings.Contains(got.out, "instancetype/cpus") {
			t.Errorf("%s: %v\n%s%s", forbidden, got.err, got.out, got.errOut)
		}
	}
	server := apiServer{without: "instancetype.kubevirt.io"}
	got := call(t, "", append([]string{"audit", "-A", "--runtime", "kubevirt"}, server.serve(t, auditedObjects()[:2]...)...)...)
	if cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("without instancetypes: %v\n%s%s", got.err, got.out, got.errOut)
	}
}

// TestAuditOfABrokenDump: a dump may have anything in it. What cannot be read is named with its file and line, and everything else is judged.
func TestAuditOfABrokenDump(t *testing.T) {
	t.Parallel()
	list := "apiVersion: v1\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(audited("grace", "Seconds: 30", "Seconds: -1")), "\n", "\n  ") + "\nkind: List\n"
	const head = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: NAME\n"
	dir := folder(t, map[string]string{
		"must-gather/namespaces/shop/vms.yaml":   list,
		"must-gather/namespaces/shop/again.yaml": audited("grace", "Seconds: 30", "Seconds: -1"),
		"must-gather/version.json":               `{"gitVersion": "v1.36.0"}`,
		"must-gather/pods.yaml":                  "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [}\n",
		"must-gather/cut.yaml":                   "apiVersion: v1\nitems:\n- apiVersion: kubevirt.io/v1\n  kind: VirtualMachine\n  metadata:\n    name: \"cut\n",
		"must-gather/deep.yaml":                  head + "spec: " + strings.Repeat("[", 20000),
		"must-gather/deep.json":                  `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": ` + strings.Repeat("[", 20000),
		"must-gather/huge.yaml":                  head + "  annotations: {a: \"" + strings.Repeat("a", manifest.MaxObjectBytes) + "\"}\n",
		"must-gather/kustomization.yaml":         "resources: []\n",
		"must-gather/log.txt":                    "no manifest",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "must-gather/pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", filepath.Join(dir, "must-gather/link.yaml")); err != nil {
		t.Fatal(err)
	}
	got := call(t, "", "audit", "--runtime", "kubevirt", "-f", dir, "-o", "json")
	var a audit.Audit
	if err := json.Unmarshal([]byte(got.out), &a); err != nil || cmdutil.ExitStatus(got.err) != 2 {
		t.Fatalf("%v, %v: %.2000s", err, got.err, got.out+got.errOut)
	}
	if len(a.Objects) != 1 || a.Judged["VirtualMachine"] != 1 {
		t.Errorf("%+v of %v", a.Objects, a.Judged)
	}
	for _, file := range []string{"cut.yaml:", "deep.yaml:", "deep.json:", "huge.yaml:1: the object has more than 3 MiB", "link.yaml"} {
		named := 0
		for _, u := range a.Unjudged {
			if strings.Contains(u.Reason, file) {
				named++
			}
			if len(u.Reason) > 1000 {
				t.Errorf("a reason of %d characters: %.200s", len(u.Reason), u.Reason)
			}
		}
		if named != 1 {
			t.Errorf("%s is named %d times: %+v", file, named, a.Unjudged)
		}
	}
	if len(a.Unjudged) != 5 {
		t.Errorf("%d are unjudged: %+v", len(a.Unjudged), a.Unjudged)
	}
}

// TestAuditFollowsKubeVirt: the version of KubeVirt, by flag or by the KubeVirt object of the dump, is enough for the rules beside KubeVirt.
func TestAuditFollowsKubeVirt(t *testing.T) {
	t.Parallel()
	// KubeVirt 1.8 has gate VideoConfig off.
	vm := audited("vga", "devices: {}", "devices: {video: {type: vga}}")
	operated := "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\n"
	dir, file := write(t, vm)
	of := func(status string) string {
		_, with := write(t, vm+"\n---\n"+operated+status)
		return with
	}
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"-f " + file, 0, "1 object judged, 0 would be refused"},
		{"-f " + dir + " --kubevirt-version v1.8.2", 1, "beside KubeVirt v1.8, 1 would be refused"},
		{"-f " + of("status: {observedKubeVirtVersion: v1.8.2}\n"), 1, "beside KubeVirt v1.8, 1 would be refused"},
		{"-f " + of("spec: {}\n"), 0, "1 object judged, 0 would be refused"}, // Kiln's own configuration
		{"-f " + of("status: {observedKubeVirtVersion: v1.12.0}\n"), 0, "status.observedKubeVirtVersion is 'v1.12.0', and Kiln knows v1.7 to v1.9"},
		{"-f " + file + " --kubevirt-version v1.6.0", 1, "--kubevirt-version is v1.6, and Kiln knows v1.7 to v1.9: the rules of v1.7 apply"},
		{"-f " + file + " --kubevirt-version v1.8.2 --runtime pod", 2, "--kubevirt-version has an effect only if KubeVirt runs the guests, and --runtime is 'pod'"},
	} {
		got := call(t, "", append([]string{"audit"}, strings.Fields(test.args)...)...)
		if text := got.out + got.errOut + fmt.Sprint(got.err); cmdutil.ExitStatus(got.err) != test.status || !strings.Contains(text, test.says) {
			t.Errorf("audit %s: status %d, want %d and '%s':\n%s", test.args, cmdutil.ExitStatus(got.err), test.status, test.says, text)
		}
	}
}

// TestAuditIsComplete: a VM without its instancetype is no success, and its start is not judged. An object that is there twice with another content is named.
func TestAuditIsComplete(t *testing.T) {
	t.Parallel()
	sized := strings.Replace(audited("sized", "Seconds: 30", "Seconds: -1"), "  runStrategy: Always\n", "  runStrategy: Always\n  instancetype: {name: gone}\n", 1)
	_, file := write(t, sized)
	got := call(t, "", "audit", "--runtime", "kubevirt", "-f", file)
	const absent = "error: 1 VM refers to an instancetype or preference that was not found"
	if text := got.out + got.errOut; cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(text, absent) || strings.Contains(text, "not pinned") {
		t.Errorf("%v:\n%s", got.err, text)
	}
	const again = "objects with the name of an earlier one: 1, for example VirtualMachine shop/web. They were not judged"
	_, twice := write(t, audited("web", "", ""), strings.Replace(audited("web", "Seconds: 30", "Seconds: -1"), `"7"`, `"8"`, 1))
	got = call(t, "", "audit", "--runtime", "kubevirt", "-f", twice)
	if text := got.out + got.errOut; cmdutil.ExitStatus(got.err) != 0 || !strings.Contains(text, again) {
		t.Errorf("%v:\n%s", got.err, text)
	}
	_, list := write(t, "apiVersion: v1\nkind: List\nitems:\n- null\n- 7\n- {a: b}\n- {apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, "+
		"namespace: shop}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}}\n")
	got = call(t, "", "audit", "--runtime", "kubevirt", "-f", list)
	const left = "items of lists that are no objects of Kubernetes: 3. They were left out; the first one is at "
	if text := got.out + got.errOut; cmdutil.ExitStatus(got.err) != 0 || !strings.Contains(text, left+list+":4") || !strings.Contains(text, "1 object judged") {
		t.Errorf("%v:\n%s", got.err, text)
	}
}
