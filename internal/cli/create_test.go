package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestCreateVM: each command line gives the spec that virtctl documents. test/kubevirt/virtctl compares with what virtctl itself prints.
func TestCreateVM(t *testing.T) {
	t.Parallel()
	for _, test := range createLines {
		got := call(t, "", append(strings.Fields(test.line), "--name", "my-vm")...)
		var vm v1.VirtualMachine
		if err := yaml.UnmarshalStrict([]byte(got.out), &vm); got.err != nil || err != nil {
			t.Errorf("%s: %v, %v\n%s%s", test.line, got.err, err, got.out, got.errOut)
			continue
		}
		var want v1.VirtualMachineSpec
		if err := yaml.UnmarshalStrict(merged(t, createBase, "{"+test.want+"}"), &want); err != nil {
			t.Fatalf("%s: %v", test.line, err)
		}
		if diff := cmp.Diff(indented(t, want), indented(t, vm.Spec)); diff != "" || vm.Name != "my-vm" || vm.Kind != "VirtualMachine" {
			t.Errorf("%s: -want +got\n%s", test.line, diff)
		}
	}
	if len(createLines) < 30 {
		t.Errorf("%d lines, want 30", len(createLines))
	}
}

// merged is a document in YAML with a merge patch.
func merged(t *testing.T, document, patch string) []byte {
	t.Helper()
	base, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	change, err := yaml.YAMLToJSONStrict([]byte(patch))
	if err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	after, err := jsonpatch.MergePatch(base, change)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func indented(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ line, want string }{
		{"vm --run-strategy Sometimes", "--run-strategy: 'Sometimes' must be 'Always', 'Manual', 'Halted', 'Once', 'RerunOnFailure'"},
		{"vm --memory much", "--memory: 'much': "},
		{"vm --memory 2048", "--memory: '2048' is less than 1M: is the unit missing? 2Gi has one"},
		{"vm --memory 5Pi", "--memory: '5Pi' is more than 4Pi, which is what processors address"},
		{"vm --termination-grace-period -1", "--termination-grace-period: '-1' must not be negative"},
		{"vm --name A_b", "--name: 'A_b': a lowercase RFC 1123 subdomain"},
		{"vm --name " + strings.Repeat("a", 247), "--name: Too long: may not be more than 246 bytes"},
		{"instancetype --cpu 1 --memory 1Gi --name A_b", "--name: 'A_b': "},
		{"instancetype --cpu 1 --memory 1", "spec.memory.guest: Invalid value: \"1\": must be at least 1M; is the unit missing?"},
		{"preference --name A_b", "--name: 'A_b': "},
		{"vm --memory 1Gi --instancetype i", "exclude each other: give one of them"},
		{"vm --fit cpu=1 --instancetype i", "exclude each other: give one of them"},
		{"vm --instancetype size/i", "--instancetype: kind 'size' must be 'virtualmachineinstancetype' or 'virtualmachineclusterinstancetype'"},
		{"vm --preference a/b/c", "--preference: 'a/b/c' must be NAME or PREFIX/NAME"},
		{"vm --volume-pvc my-pvc", "--volume-pvc: 'my-pvc' must be NAME:VALUE"},
		{"vm --volume-pvc src:ns/my-pvc", "--volume-pvc: src 'ns/my-pvc' must be in the namespace of the VM: leave 'ns/' out"},
		{"vm --volume-pvc src:a,size:1Gi", "--volume-pvc: 'size' is unknown: use 'src', 'name', 'bootorder'"},
		{"vm --volume-pvc src:a --volume-pvc src:a", "--volume-pvc: there is a volume 'a' already: give this one another name"},
		{"vm --volume-pvc src:a,name:A_b", "--volume-pvc: name 'A_b': "},
		{"vm --volume-pvc src:a,bootorder:0", "--volume-pvc: bootorder '0' must be a number from 1 on"},
		{"vm --volume-pvc src:a,bootorder:1 --volume-pvc src:b,bootorder:1", "--volume-pvc: bootorder 1 already belongs to volume 'a'"},
		{"vm --volume-import src:a", "--volume-import: type '' must be 'blank', 'ds', 'gcs', 'http', 'imageio', 'pvc', 'registry', 's3', 'snapshot', 'vddk'"},
		{"vm --volume-import type:blank", "--volume-import: type 'blank' needs a size, such as size:50Gi"},
		{"vm --volume-import type:blank,size:1GB", "--volume-import: size '1GB': must be a quantity: write 1G or 1Gi"},
		{"vm --memory 128MB", "--memory: '128MB': must be a quantity: write 128M or 128Mi"},
		{"instancetype --cpu 1 --memory 128MB", "--memory: '128MB': must be a quantity: write 128M or 128Mi"},
		{"vm --volume-import type:blank,size:-1", "--volume-import: size '-1': must be greater than 0"},
		{"vm --volume-import type:pvc,src:a", "--volume-import: src 'a' must have its namespace: write NAMESPACE/a"},
		{"vm --volume-import type:vddk,url:u,size:1Gi", "--volume-import: uuid must be given"},
		{"vm --volume-import type:registry,size:1Gi", "--volume-import: either url or imagestream must be given"},
		{"vm --volume-import type:registry,url:u,pullmethod:push,size:1Gi", "--volume-import: pullmethod 'push' must be 'pod' or 'node'"},
		{"vm --volume-sysprep src:a,type:file", "--volume-sysprep: type 'file' must be 'configmap' or 'secret'"},
		{"vm --infer-instancetype", "--infer-instancetype: needs a volume to infer from"},
		{"vm --infer-preference-from root", "--infer-preference: there is no volume 'root'"},
		{"vm --volume-containerdisk src:i --infer-preference", "--infer-preference: volume 'vm-"},
		{"vm --access-cred type:ssh,src:s", "--access-cred: the guest agent needs a user: give user:NAME or --user"},
		{"vm --access-cred src:s,method:nocloud --cloud-init configdrive", "--access-cred: method 'nocloud' needs --cloud-init=nocloud, not 'configdrive'"},
		{"vm --access-cred type:password,src:s,method:nocloud", "--access-cred: method 'nocloud' must be 'ga' for a password"},
		{"vm --access-cred type:key,src:s", "--access-cred: type 'key' must be 'ssh' or 'password'"},
		{"vm --cloud-init floppy", "--cloud-init: 'floppy' must be 'nocloud', 'configdrive' or 'none'"},
		{"vm --cloud-init-user-data eA== --user me", "--cloud-init-user-data: cannot be combined with --user"},
		{"vm --password-file none", "--password-file: open none: "},
		{"instancetype --cpu 1", "missing --memory, see 'kubectl kiln create instancetype --help'"},
		{"instancetype --cpu 0 --memory 1Gi", "spec.cpu.guest: Invalid value: 0: must be at least 1"},
		{"instancetype --cpu 1 --memory 1Gi --gpu name:a", "--gpu: devicename must be given"},
		{"instancetype --cpu 1 --memory 1Gi --iothreadspolicy many", "--iothreadspolicy: 'many' must be 'auto' or 'shared'"},
		{"preference --cpu-topology towers", "spec.cpu.preferredCPUTopology: Unsupported value: \"towers\""},
	} {
		got := call(t, "", append([]string{"create"}, strings.Fields(test.line)...)...)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), test.want) || got.out != "" {
			t.Errorf("%s: %v, want '%s'\n%s", test.line, got.err, test.want, got.out)
		}
	}
	got := call(t, "", "create", "vm", "--user", "me\nruncmd: [reboot]")
	if got.err == nil || got.out != "" {
		t.Errorf("a user adds lines to cloud-init's configuration: %v\n%s", got.err, got.out)
	}
}

// TestCreateWritesYAML: a password is what its file says, also where YAML would read something else.
func TestCreateWritesYAML(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"0123", "a: b", "#1", "{x}", "true", `"quoted"`} {
		dir := folder(t, map[string]string{"password": password + "\n"})
		got := call(t, "", "create", "vm", "--password-file", dir+"/password")
		var vm v1.VirtualMachine
		var config struct{ Password any }
		if err := yaml.Unmarshal([]byte(got.out), &vm); err != nil || got.err != nil {
			t.Fatal(err, got.err)
		}
		if err := yaml.Unmarshal([]byte(vm.Spec.Template.Spec.Volumes[0].CloudInitNoCloud.UserData), &config); err != nil || config.Password != password {
			t.Errorf("'%s' became '%v': %v", password, config.Password, err)
		}
		if !strings.Contains(got.errOut, "every user who may get the VM reads it") {
			t.Errorf("no warning: %s", got.errOut)
		}
	}
}

func TestCreateCatalogObjects(t *testing.T) {
	t.Parallel()
	const head = "---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: "
	for _, test := range []struct{ line, want string }{
		{"instancetype --name i --cpu 2 --memory 256Mi",
			head + "VirtualMachineClusterInstancetype\nmetadata:\n  name: i\nspec:\n  cpu:\n    guest: 2\n  memory:\n    guest: 256Mi\n"},
		{"instancetype --name i --cpu 2 --memory 256Mi -n shop --iothreadspolicy auto --hostdevice name:h,devicename:e.org/d",
			head + "VirtualMachineInstancetype\nmetadata:\n  name: i\n  namespace: shop\nspec:\n  cpu:\n    guest: 2\n" +
				"  hostDevices:\n  - deviceName: e.org/d\n    name: h\n  ioThreadsPolicy: auto\n  memory:\n    guest: 256Mi\n"},
		{"instancetype --name i --cpu 2 --memory 256Mi --gpu name:g,devicename:nvidia.com/A --namespaced",
			head + "VirtualMachineInstancetype\nmetadata:\n  name: i\nspec:\n  cpu:\n    guest: 2\n" +
				"  gpus:\n  - deviceName: nvidia.com/A\n    name: g\n  memory:\n    guest: 256Mi\n"},
		{"preference --name p --cpu-topology sockets",
			head + "VirtualMachineClusterPreference\nmetadata:\n  name: p\nspec:\n  cpu:\n    preferredCPUTopology: sockets\n"},
		{"preference --name p --namespaced --volume-storage-class fast --machine-type q35", head + "VirtualMachinePreference\nmetadata:\n  name: p\nspec:\n" +
			"  machine:\n    preferredMachineType: q35\n  volumes:\n    preferredStorageClassName: fast\n"},
	} {
		got := call(t, "", append([]string{"create"}, strings.Fields(test.line)...)...)
		if got.err != nil || got.out != test.want {
			t.Errorf("%s: %v\n%s", test.line, got.err, cmp.Diff(test.want, got.out))
		}
	}
	for line, form := range map[string]string{
		"vm": "vm-", "instancetype --cpu 1 --memory 1Gi": "clusterinstancetype-", "preference --namespaced": "preference-",
	} {
		got := call(t, "", append([]string{"create"}, strings.Fields(line)...)...)
		if !regexp.MustCompile(`\n  name: ` + form + `[a-z0-9]{5}\n`).MatchString(got.out) {
			t.Errorf("%s has no random name:\n%s", line, got.out)
		}
	}
}

func TestCreateFit(t *testing.T) {
	t.Parallel()
	_, file := write(t, offered)
	for _, test := range []struct{ line, instancetype, errOut string }{
		{"--fit cpu=1,memory=1Gi", "u1.small", ""},
		{"--fit cpu=1", "u1.small", ""},
		{"--fit memory=3Gi", "u1.large", "is deprecated: use 'u2.large'"},
		{"--fit cpu=4,memory=9Gi --preference linux", "virtualmachineinstancetype/gpu", ""},
		{"--fit gpus=1", "virtualmachineinstancetype/gpu", ""},
		{"--fit cpu=4,memory=8Gi --preference windows", "", "no instancetype of the catalog has as much"},
		{"--fit cpu=9", "", "no instancetype of the catalog has as much"},
		{"--fit cpu=many", "", "invalid syntax"},
		{"--fit disks=1", "", "'disks' must be 'cpu', 'memory' or 'gpus'"},
		{"--instancetype u1.large", "u1.large", "is deprecated: use 'u2.large'"},
		{"--instancetype u0.large", "", "is obsolete without replacement: choose another"},
		{"--instancetype u1.lrge", "", "did you mean 'u1.large'?"},
		{"--instancetype u1.small --preference linux", "", "requires 2 vCPUs"},
	} {
		got := call(t, "", append(strings.Fields("create vm -n shop -f "+file), strings.Fields(test.line)...)...)
		output := got.errOut
		if got.err != nil {
			output += got.err.Error()
		}
		var vm v1.VirtualMachine
		if err := yaml.Unmarshal([]byte(got.out), &vm); err != nil {
			t.Fatal(err)
		}
		name := ""
		if m := vm.Spec.Instancetype; m != nil {
			name = strings.TrimPrefix(m.Kind+"/"+m.Name, "/")
		}
		if name != test.instancetype || (got.err == nil) != (test.instancetype != "") ||
			!strings.Contains(output, test.errOut) || (output == "") != (test.errOut == "") {
			t.Errorf("%s: '%s', %v\n%s", test.line, name, got.err, output)
		}
	}
}
