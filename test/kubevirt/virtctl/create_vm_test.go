package virtctl

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestCreateVM: Kiln prints the VM that virtctl prints, for every example of virtctl's help and for lines.
func TestCreateVM(t *testing.T) {
	t.Parallel()
	agreed := 0
	for _, line := range examples(t) {
		if agree(t, line) {
			agreed++
		}
	}
	if agreed == 0 {
		t.Error("no example of virtctl's help is a VM")
	}
	for _, line := range lines {
		if !agree(t, line) {
			t.Errorf("%s: refused by both", line)
			continue
		}
		agreed++
	}
	if t.Logf("%d command lines give the same VM", agreed); agreed < 30 {
		t.Errorf("%d command lines, want 30", agreed)
	}
}

// TestCreateVMRefuses: what virtctl refuses, Kiln refuses too.
func TestCreateVMRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range refused {
		if agree(t, line) {
			t.Errorf("%s: both print a VM", line)
		}
	}
}

// examples are the command lines of virtctl's help.
func examples(t *testing.T) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(run(t, "virtctl", "create vm --help").out) {
		if line, is := strings.CutPrefix(strings.TrimSpace(line), "virtctl "); is && strings.HasPrefix(line, "create vm") {
			found = append(found, strings.ReplaceAll(line, "/path/to/file", "testdata/password"))
		}
	}
	return found
}

// agree runs a command line with both, and compares the VMs. It returns false if both refuse it.
func agree(t *testing.T, line string) bool {
	t.Helper()
	if !strings.Contains(line, "--name ") && !strings.Contains(line, "--name=") {
		line += " --name my-vm" // random otherwise
	}
	theirs, ours := run(t, "virtctl", line), run(t, "kubectl-kiln", line)
	if theirs.status != 0 && ours.status != 0 {
		if strings.Contains(theirs.errOut, "panic") || theirs.out != "" || ours.out != "" || ours.errOut == "" {
			t.Errorf("%s: refused, with\n%v\n%v", line, theirs, ours)
		}
		return false
	}
	if theirs.status != 0 || ours.status != 0 {
		t.Errorf("%s: only one refuses\nvirtctl: %s\nKiln: %s", line, theirs.errOut, ours.errOut)
		return true
	}
	want, got := parsed(t, theirs.out), parsed(t, ours.out)
	if diff := cmp.Diff(indented(t, named(t, want)), indented(t, got)); diff != "" {
		t.Errorf("%s: -virtctl +Kiln\n%s", line, diff)
	}
	return true
}

// parsed reads a printed VM. Empty objects, which virtctl prints and Kiln leaves out, are the same to the API's types; a field that these do not have
// fails.
func parsed(t *testing.T, text string) *v1.VirtualMachine {
	t.Helper()
	vm := &v1.VirtualMachine{}
	if err := yaml.UnmarshalStrict([]byte(text), vm); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return vm
}

var random = regexp.MustCompile(`^imported-volume-[a-z0-9]{5}$`)

// named gives data volumes without a name the names that Kiln derives from the VM's name. virtctl's names are random, so no two of its manifests are equal.
func named(t *testing.T, vm *v1.VirtualMachine) *v1.VirtualMachine {
	t.Helper()
	text := indented(t, vm)
	for i, template := range vm.Spec.DataVolumeTemplates {
		if random.MatchString(template.Name) {
			text = strings.ReplaceAll(text, `"`+template.Name+`"`, fmt.Sprintf(`"%s-import-%d"`, vm.Name, i))
		}
	}
	return parsed(t, text)
}

func indented(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// differences are where Kiln differs on purpose. want is a part of what Kiln prints or says; virtctl's answer has theirs.
var differences = []struct {
	line, theirs, want, reason string
	// refuses is whether Kiln refuses the line.
	refuses bool
}{
	{"create vm --user me --password-file=testdata/number", "\n            password: 0123\n", "\n            password: \"0123\"\n",
		"YAML reads 0123 as 83, which is not the password", false},
	{"create vm --user 'me\nruncmd: [reboot]'", "\n            runcmd: [reboot]\n", "must be one line of UTF-8",
		"a value adds no line to what root of the guest obeys", true},
	{"create vm --volume-import=type:blank,size:0,name:b", "storage: \"0\"", "size '0': must be greater than 0",
		"no provisioner binds a claim of 0 bytes", true},
}

// TestDifferences: docs/how-to/catalog.md lists the differences between Kiln and virtctl, and both commands behave as the page describes.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, test := range differences {
		theirs, ours := run(t, "virtctl", test.line+" --name my-vm"), run(t, "kubectl-kiln", test.line+" --name my-vm")
		if !strings.Contains(theirs.out+theirs.errOut, test.theirs) {
			t.Errorf("%s (%s): virtctl has no %q\n%s%s", test.line, test.reason, test.theirs, theirs.out, theirs.errOut)
		}
		if (ours.status != 0) != test.refuses || !strings.Contains(ours.out+ours.errOut, test.want) {
			t.Errorf("%s (%s): %d, want %q\n%s%s", test.line, test.reason, ours.status, test.want, ours.out, ours.errOut)
		}
	}
}
