package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

// offered is a catalog to choose from.
const offered = `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1.small, labels: {instancetype.kubevirt.io/class: general.purpose}}
spec: {cpu: {guest: 1}, memory: {guest: 2Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata:
  name: u1.large
  labels: {instancetype.kubevirt.io/class: general.purpose, kilnvm.io/lifecycle: deprecated}
  annotations: {kilnvm.io/replaced-by: u2.large}
spec: {cpu: {guest: 4}, memory: {guest: 8Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u0.large, labels: {kilnvm.io/lifecycle: obsolete}}
spec: {cpu: {guest: 4}, memory: {guest: 8Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: gpu, namespace: shop}
spec: {cpu: {guest: 8}, memory: {guest: 16Gi, hugepages: {pageSize: 1Gi}}, gpus: [{name: a, deviceName: nvidia.com/A}]}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: windows, labels: {instancetype.kubevirt.io/os-type: windows}}
spec: {requirements: {cpu: {guest: 10}, memory: {guest: 4Gi}}, devices: {preferredTPM: {}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: linux}
spec: {requirements: {cpu: {guest: 2}, memory: {guest: 4Gi}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachinePreference
metadata: {name: elsewhere, namespace: bank}
spec: {}
`

func TestChoosing(t *testing.T) {
	t.Parallel()
	_, file := write(t, offered)
	for _, test := range []struct {
		why, args, out, errOut string
		status                 int
	}{
		{"all that new VMs may use", "instancetypes", "" +
			"NAME                             CPU   MEMORY   GPUS   FEATURES        CLASS             LIFECYCLE    USE-INSTEAD\n" +
			"u1.small                         1     2Gi      0      -               general.purpose   active       -\n" +
			"u1.large                         4     8Gi      0      -               general.purpose   deprecated   u2.large\n" +
			"virtualmachineinstancetype/gpu   8     16Gi     1      hugepages 1Gi   -                 active       -\n", "", 0},
		{"figures", "instancetypes --min-cpu 2 --min-memory 9Gi --gpus 1", "" +
			"NAME                             CPU   MEMORY   GPUS   FEATURES\n" +
			"virtualmachineinstancetype/gpu   8     16Gi     1      hugepages 1Gi\n", "", 0},
		{"labels", "instancetypes -l instancetype.kubevirt.io/class,kilnvm.io/lifecycle!=deprecated", "" +
			"NAME       CPU   MEMORY   GPUS   CLASS\n" +
			"u1.small   1     2Gi      0      general.purpose\n", "", 0},
		{"more columns", "preferences -o wide -l instancetype.kubevirt.io/os-type", "" +
			"NAME      MIN-CPU   MIN-MEMORY   OS        FEATURES\n" +
			"windows   10        4Gi          windows   TPM\n", "", 0},
		{"what a preference requires", "instancetypes --for linux", "" +
			"NAME                             CPU   MEMORY   GPUS   FEATURES        CLASS             LIFECYCLE    USE-INSTEAD\n" +
			"u1.large                         4     8Gi      0      -               general.purpose   deprecated   u2.large\n" +
			"virtualmachineinstancetype/gpu   8     16Gi     1      hugepages 1Gi   -                 active       -\n", "", 0},
		{"what does not fit, with the reason", "instancetypes --for linux --all -l instancetype.kubevirt.io/class=general.purpose", "" +
			"NAME       CPU   MEMORY   GPUS   CLASS             LIFECYCLE    USE-INSTEAD   FITS\n" +
			"u1.small   1     2Gi      0      general.purpose   active       -             " +
			"no: has 1 vCPU, and VirtualMachineClusterPreference 'linux' requires 2 vCPUs\n" +
			"u1.large   4     8Gi      0      general.purpose   deprecated   u2.large      yes\n", "", 0},
		{"a preference of another namespace", "instancetypes --for virtualmachinepreference/elsewhere --gpus 1 --all", "" +
			"NAME                             CPU   MEMORY   GPUS   FEATURES        FITS\n" +
			"virtualmachineinstancetype/gpu   8     16Gi     1      hugepages 1Gi   no: is of another namespace\n", "", 0},
		{"a template", "instancetypes -o jsonpath={range.items[*]}{.name}{\"\\t\"}{.memory}{\"\\n\"}{end} --for linux", "u1.large\t8Gi\ngpu\t16Gi\n", "", 0},
		{"a wrong template", "instancetypes -o jsonpath={.name", "", "error: --output jsonpath='{.name': unclosed action", 2},
		{"names for scripts", "instancetypes -o name --for linux", "u1.large\nvirtualmachineinstancetype/gpu\n", "", 0},
		{"nothing", "instancetypes --min-cpu 100", "", "nothing in the catalog meets this; --all lists objects that do not fit, with the reason\n", 0},
		{"preferences", "preferences", "" +
			"NAME                                 MIN-CPU   MIN-MEMORY   OS\n" +
			"virtualmachinepreference/elsewhere   -         -            -\n" +
			"linux                                2         4Gi          -\n" +
			"windows                              10        4Gi          windows\n", "", 0},
		{"preferences of an instancetype", "preferences --for u1.large", "" +
			"NAME                                 MIN-CPU   MIN-MEMORY\n" +
			"virtualmachinepreference/elsewhere   -         -\n" +
			"linux                                2         4Gi\n", "", 0},
		{"a name that is not there", "preferences --for u1.lrge", "",
			"error: --for: VirtualMachineClusterInstancetype 'u1.lrge' does not exist; did you mean 'u1.large'?\n", 2},
		{"a name of a namespace", "preferences --for gpu", "",
			"error: --for: VirtualMachineClusterInstancetype 'gpu' does not exist; did you mean 'virtualmachineinstancetype/gpu'?\n", 2},
		{"an unknown kind", "preferences --for size/gpu", "",
			"error: --for: 'size' is not a kind: use 'virtualmachineclusterinstancetype' or 'virtualmachineinstancetype'\n", 2},
		{"no quantity", "instancetypes --min-memory much", "", "error: --min-memory 'much': must be a quantity such as '500M'", 2},
		{"no selector", "preferences -l a==b==c", "", "error: --selector 'a==b==c': ", 2},
	} {
		got := call(t, "", append(strings.Fields(test.args), "-f", file)...)
		output := got.errOut
		if got.err != nil {
			output += "error: " + got.err.Error() + "\n"
		}
		if got.out != test.out || !strings.HasPrefix(output, test.errOut) || (output == "") != (test.errOut == "") || cmdutil.ExitStatus(got.err) != test.status {
			t.Errorf("%s: status %d\n%s%s\nwant %d\n%s%s", test.why, cmdutil.ExitStatus(got.err), got.out, output, test.status, test.out, test.errOut)
		}
	}
}

// TestInstancetypesOfSpecialNodesComeLast: each feature by which only some nodes run a guest is named, and moves its instancetype behind all others.
func TestInstancetypesOfSpecialNodesComeLast(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ spec, feature string }{
		{"{cpu: {guest: 1, dedicatedCPUPlacement: true}, memory: {guest: 1Gi}}", "dedicated CPUs"},
		{"{cpu: {guest: 1}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}}", "hugepages 2Mi"},
		{"{cpu: {guest: 1}, memory: {guest: 1Gi}, hostDevices: [{name: a, deviceName: example.org/A}]}", "1 host device"},
		{"{cpu: {guest: 1}, memory: {guest: 1Gi}, launchSecurity: {sev: {}}}", "launch security"},
		{"{cpu: {guest: 1}, memory: {guest: 1Gi}, nodeSelector: {rack: a}}", "node selector"},
		{"{cpu: {guest: 1}, memory: {guest: 1Gi}, gpus: [{name: a, deviceName: example.org/A}]}", "   1 "},
		{"{cpu: {guest: 1}, memory: {guest: 1Gi, overcommitPercent: 10}}", ""},
	} {
		_, file := write(t, offered+"---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\n"+
			"metadata: {name: a1.special, labels: {instancetype.kubevirt.io/class: a}}\nspec: "+test.spec+"\n")
		got := call(t, "", "instancetypes", "-f", file, "-l", "instancetype.kubevirt.io/class")
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		place := len(lines) - 1
		if test.feature == "" {
			place = 1 // by its class: every node can run it
		}
		if len(lines) != 4 || !strings.HasPrefix(lines[place], "a1.special ") || !strings.Contains(lines[place], test.feature) {
			t.Errorf("%s: want it in line %d with '%s', got\n%s%s", test.spec, place, test.feature, got.out, got.errOut)
		}
	}
}

// TestChoosingForARuntime: with --runtime a list says of each object whether the runtime starts guests with it, and why not.
func TestChoosingForARuntime(t *testing.T) {
	t.Parallel()
	_, file := write(t, offered+`---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: rt1.small}
spec: {cpu: {guest: 1, dedicatedCPUPlacement: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: queues}
spec: {requirements: {cpu: {guest: 2}}, devices: {preferredInterfaceModel: virtio, preferredNetworkInterfaceMultiQueue: true}}
`)
	for _, test := range []struct {
		args string
		want map[string]string // by the name of an object, the beginning of its cell; empty without the column
	}{
		{"instancetypes", map[string]string{"rt1.small": "", "u1.small": ""}},
		{"instancetypes --runtime kubevirt", map[string]string{"rt1.small": "", "u1.small": ""}},
		{"instancetypes --runtime pod", map[string]string{"rt1.small": "no: spec.domain.cpu.realtime: ", "u1.small": "yes"}},
		{"preferences --runtime pod", map[string]string{"queues": "no: spec.domain.devices.networkInterfaceMultiqueue: ", "linux": "yes"}},
		{"preferences --runtime node", map[string]string{"queues": "", "linux": ""}},
	} {
		got := call(t, "", append(strings.Fields(test.args), "-f", file)...)
		head, rows, _ := strings.Cut(got.out, "\n")
		at := strings.Index(head, "STARTS")
		if got.err != nil || (at >= 0) != (test.want["u1.small"]+test.want["linux"] != "") {
			t.Errorf("%s: %v\n%s%s", test.args, got.err, got.out, got.errOut)
			continue
		}
		for line := range strings.Lines(rows) {
			name, _, _ := strings.Cut(line, " ")
			if want := test.want[name]; want != "" && !strings.HasPrefix(line[at:], want) {
				t.Errorf("%s: %s is '%s', want '%s'", test.args, name, line[at:], want)
			}
			delete(test.want, name)
		}
		if len(test.want) > 0 {
			t.Errorf("%s: the list lacks %v", test.args, test.want)
		}
	}
	for runtime, want := range map[string]int{"auto": 0, "pod": 2} { // an instancetype and a preference
		folder := filepath.Join(t.TempDir(), "page")
		got := call(t, "", "catalog", "site", file, "--runtime", runtime, "--output-dir", folder)
		page, err := os.ReadFile(filepath.Join(folder, "index.html"))
		if marked := strings.Count(string(page), ">no guest starts<"); got.err != nil || err != nil || marked != want {
			t.Errorf("the page for runtime '%s' marks %d objects, want %d: %v, %v", runtime, marked, want, got.err, err)
		}
	}
	if got := call(t, "", "instancetypes", "-f", file, "--runtime", "xen"); got.err == nil || !strings.Contains(got.err.Error(), "--runtime is 'xen'") {
		t.Errorf("a runtime that does not exist: %v", got.err)
	}
}

// TestChoosingFromHostileFiles: what an API server would refuse is left out with its reason, and gives a terminal no orders.
func TestChoosingFromHostileFiles(t *testing.T) {
	t.Parallel()
	_, file := write(t, strings.Replace(offered, "os-type: windows", `os-type: "win\e[31mdows"`, 1))
	got := call(t, "", "preferences", "-f", file)
	if got.err != nil || strings.Contains(got.out, "windows") || !strings.Contains(got.errOut, "left out: ") || strings.ContainsRune(got.out+got.errOut, '\x1b') {
		t.Errorf("%v\n%s%q", got.err, got.out, got.errOut)
	}
}

func TestChoosingAsDocument(t *testing.T) {
	t.Parallel()
	_, file := write(t, offered)
	var list struct {
		Kind  string
		Items []struct {
			Name, Lifecycle, ReplacedBy, Misses string
			CPUs                                int
			Fits                                bool
		}
	}
	got := call(t, "", "instancetypes", "-f", file, "-o", "json", "--for", "linux", "--all", "--min-cpu", "1", "-l", "kilnvm.io/lifecycle")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || list.Kind != "InstancetypeList" || len(list.Items) != 2 {
		t.Fatalf("%v, %v:\n%s", got.err, err, got.out)
	}
	if o := list.Items[1]; o.Name != "u1.large" || o.Lifecycle != "deprecated" || o.ReplacedBy != "u2.large" || o.CPUs != 4 || !o.Fits || o.Misses != "" {
		t.Errorf("got %+v", o)
	}
	got = call(t, "", "preferences", "-f", file, "-o", "json", "-l", "none")
	if !strings.HasSuffix(got.out, "\"kind\": \"PreferenceList\",\n  \"items\": []\n}\n") {
		t.Errorf("no offers are an empty list, got %s", got.out)
	}
}

// TestChoosingFromARegistry: a published catalog is one more source.
func TestChoosingFromARegistry(t *testing.T) {
	repository, flag := newRegistry(t)
	if _, errOut, err := called(t, "catalog", "push", folderOf(t, smallInstancetype, linuxPreference), repository+":1.0.0", flag); err != nil {
		t.Fatal(err, errOut)
	}
	out, errOut, err := called(t, "instancetypes", "-f", repository+":1.0.0", flag, "--for", "linux")
	if err != nil || errOut != "" || !strings.Contains(out, "small   1     1Gi") {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
	out, errOut, err = called(t, "create", "vm", "--fit", "cpu=1", "-f", repository+":1.0.0", flag)
	if err != nil || !strings.Contains(out, "instancetype:\n    name: small\n") {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
}
