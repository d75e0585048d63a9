package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

const size = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: medium}
spec: {cpu: {guest: 3}, memory: {guest: 2Gi}}
`

const vm = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  instancetype: {name: medium}
  template:
    spec:
      domain: {devices: {}}
      volumes: [{name: root, containerDisk: {image: "os:1"}}]
`

// conflicting sets a field that its instancetype sets.
var conflicting = strings.Replace(vm, "devices: {}", "memory: {guest: 1Gi}, devices: {}", 1)

// answer is what a user sees of one call.
type answer struct {
	out, errOut string
	err         error
}

func call(t *testing.T, stdin string, args ...string) answer {
	t.Helper()
	args = slices.Insert(args, 1, "--kubeconfig", filepath.Join(t.TempDir(), "none")) // nobody's cluster is asked
	var out, errOut bytes.Buffer
	command := Command(genericclioptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	command.SetArgs(args)
	command.SetContext(t.Context())
	err := command.Execute()
	return answer{out.String(), errOut.String(), err}
}

// write puts documents into one file of a new directory.
func write(t *testing.T, documents ...string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "all.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

func TestExpandReadsFilesDirectoriesAndStandardInput(t *testing.T) {
	dir, file := write(t, size, vm)
	for _, test := range []struct {
		why, from, stdin string
	}{
		{"a file", file, ""},
		{"a directory, with the instancetype beside the VM", dir, ""},
		{"a pipe, as from kustomize build", "-", size + "---\n" + vm},
	} {
		got := call(t, test.stdin, "expand", "-f", test.from)
		if got.err != nil {
			t.Errorf("%s: %v\n%s", test.why, got.err, got.errOut)
			continue
		}
		var vmi v1.VirtualMachineInstance
		if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(got.out, "---\n")), &vmi); err != nil {
			t.Errorf("%s: %v\n%s", test.why, err, got.out)
			continue
		}
		if vmi.Name != "web" || vmi.Namespace != "shop" || vmi.Spec.Domain.CPU == nil || vmi.Spec.Domain.CPU.Sockets != 3 {
			t.Errorf("%s: want guest shop/web with the instancetype's 3 vCPUs, got\n%s", test.why, got.out)
		}
	}
}

func TestTheCatalogIsNotExpandedItself(t *testing.T) {
	catalog, _ := write(t, size)
	_, file := write(t, vm)
	got := call(t, "", "expand", "-f", file, "--catalog", catalog, "-o", "json")
	var vmi v1.VirtualMachineInstance
	if got.err != nil || json.Unmarshal(item(t, got), &vmi) != nil || vmi.Spec.Domain.Memory.Guest.String() != "2Gi" {
		t.Errorf("one JSON object with the catalog's memory: %v\n%s%s", got.err, got.errOut, got.out)
	}
}

func TestRenderPrintsADomain(t *testing.T) {
	_, file := write(t, size, vm)
	first := call(t, "", "render", "-f", file)
	if first.err != nil {
		t.Fatal(first.err, first.errOut)
	}
	var domain libvirtxml.Domain
	if err := domain.Unmarshal(first.out); err != nil || domain.VCPU == nil || domain.CPU.Topology.Sockets < 3 {
		t.Errorf("no domain with the instancetype's vCPUs: %v\n%s", err, first.out)
	}
	if again := call(t, "", "render", "-f", file); again.out != first.out {
		t.Error("the same input renders differently the second time")
	}
}

// For programs: the document is a text, with the object that it is of.
func TestRenderAnswersInJSON(t *testing.T) {
	_, file := write(t, vm, size)
	plain, packed := call(t, "", "render", "-f", file), call(t, "", "render", "-f", file, "-o", "json")
	var got struct{ Object, Domain string }
	if err := json.Unmarshal(item(t, packed), &got); packed.err != nil || err != nil {
		t.Fatal(packed.err, err, packed.errOut)
	}
	if got.Object != "VirtualMachine shop/web" || got.Domain+"\n" != plain.out {
		t.Errorf("got the domain of '%s':\n%s\nwant\n%s", got.Object, got.Domain, plain.out)
	}
}

func TestRejectionIsTheExitStatusAndNamesTheCause(t *testing.T) {
	unknown := strings.Replace(vm, "devices: {}", "devices: {disks: [{name: root, buss: virtio}]}", 1)
	for _, test := range []struct{ why, vm, path string }{
		{"instancetype and VM both set memory.guest", conflicting, "spec.template.spec.domain.memory.guest"},
		{"a typing error is named with its path, as kubectl create does", unknown, "spec.template.spec.domain.devices.disks[0].buss"},
	} {
		sizes, _ := write(t, size)
		_, file := write(t, test.vm)
		for _, command := range []string{"expand", "render", "validate"} {
			got := call(t, "", command, "-f", file, "--catalog", sizes)
			if !errors.Is(got.err, cmdutil.ErrRejected) || !strings.Contains(got.errOut, test.path) || got.out != "" {
				t.Errorf("%s: %s: want %s on stderr alone, got %v\n%s%s", command, test.why, test.path, got.err, got.errOut, got.out)
			}
		}
	}
}

func TestValidateAnswersInJSON(t *testing.T) {
	_, sizes := write(t, size)
	_, file := write(t, conflicting)
	got := call(t, "", "validate", "-f", file, "--catalog", sizes, "-o", "json")
	var judged workbench.Judgement
	if err := json.Unmarshal(item(t, got), &judged); err != nil {
		t.Fatalf("%v\n%s", err, got.out)
	}
	if !errors.Is(got.err, cmdutil.ErrRejected) || judged.Allowed || len(judged.Causes) != 1 ||
		judged.Causes[0].Field != "spec.template.spec.domain.memory.guest" {
		t.Errorf("one cause, for scripts, and the exit status of a rejection: %v %+v", got.err, judged)
	}
	_, file = write(t, size, vm)
	got = call(t, "", "validate", "-f", file)
	if got.err != nil || got.out != "VirtualMachineClusterInstancetype medium is accepted\nVirtualMachine shop/web is accepted\n" {
		t.Errorf("an accepted VM: %v %q %s", got.err, got.out, got.errOut)
	}
}
