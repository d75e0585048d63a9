package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// absurdity is a value that nobody means, with its nearest legal neighbour. path and remedy are in the refusal or, where the value is legal, in a warning.
type absurdity struct {
	why, spec, legal string
	path, remedy     string
	warned           bool
}

// absurdGuests are in the spec of a VMI, and so in the template of a VM.
var absurdGuests = []absurdity{
	{why: "one byte", spec: "domain: {memory: {guest: 1}}", legal: "domain: {memory: {guest: 1M}}",
		path: "spec.domain.memory.guest: Invalid value: \"1\"", remedy: "must be at least 1M; is the unit missing?"},
	{why: "bytes", spec: "domain: {memory: {guest: 128}}", legal: "domain: {memory: {guest: 128M}}",
		path: "spec.domain.memory.guest: Invalid value: \"128\"", remedy: "is the unit missing?"},
	{why: "millibytes", spec: "domain: {memory: {guest: 128m}}", legal: "domain: {memory: {guest: 128Mi}}",
		path: "spec.domain.memory.guest: Invalid value: \"128m\"", remedy: "'m' is a thousandth of a byte: is 'M' or 'Mi' meant?"},
	{why: "a unit of others", spec: "domain: {memory: {guest: 128MB}}", legal: "domain: {memory: {guest: 128Mi}}",
		path: "spec.domain.memory.guest: Invalid value: \"128MB\"", remedy: "write 128M or 128Mi"},
	{why: "nothing", spec: "domain: {memory: {guest: 0}}", legal: "domain: {memory: {guest: 1Mi}}",
		path: "spec.domain.memory.guest: Invalid value: \"0\"", remedy: "must be greater than 0 and at most 4Pi"},
	{why: "less than nothing", spec: "domain: {memory: {guest: -1Gi}}", legal: "domain: {memory: {guest: 1Gi}}",
		path: "spec.domain.memory.guest: Invalid value: \"-1Gi\"", remedy: "must be greater than 0 and at most 4Pi"},
	{why: "more than processors address", spec: "domain: {memory: {guest: 5Pi}}", legal: "domain: {memory: {guest: 64Ti}}",
		path: "spec.domain.memory.guest: Invalid value: \"5Pi\"", remedy: "must be greater than 0 and at most 4Pi"},
	{why: "more than machines have", spec: "domain: {memory: {guest: 100Ti}}", legal: "domain: {memory: {guest: 64Ti}}",
		path: "memory.guest '100Ti' is more than 64Ti", remedy: "is the unit right?", warned: true},
	{why: "a fraction of a byte", spec: "domain: {memory: {guest: 1000000000001m}}", legal: "domain: {memory: {guest: 1000000001}}",
		path: "memory.guest '1000000000001m' is no whole number of bytes", remedy: "'m' is a thousandth", warned: true},
	{why: "a ceiling of bytes", spec: "domain: {memory: {guest: 1Gi, maxGuest: 2}}", legal: "domain: {memory: {guest: 1Gi, maxGuest: 2Gi}}",
		path: "spec.domain.memory.maxGuest: Invalid value: \"2\"", remedy: "is the unit missing?"},
	{why: "a ceiling of millibytes", spec: "domain: {memory: {guest: 1Gi, maxGuest: 2000m}}", legal: "domain: {memory: {guest: 1Gi, maxGuest: 2Gi}}",
		path: "spec.domain.memory.maxGuest: Invalid value: \"2\"", remedy: "must be at least 1M"},
	{why: "a ceiling beyond addresses", spec: "domain: {memory: {guest: 1Gi, maxGuest: 5Pi}}", legal: "domain: {memory: {guest: 1Gi, maxGuest: 2Gi}}",
		path: "spec.domain.memory.maxGuest: Invalid value: \"5Pi\"", remedy: "at most 4Pi"},
	{why: "a request of bytes", spec: "domain: {memory: {guest: 1Gi}, resources: {requests: {memory: 2}}}",
		legal: "domain: {memory: {guest: 1Gi}, resources: {requests: {memory: 1Gi}}}", path: "spec.domain.resources.requests.memory: Invalid value: \"2\"",
		remedy: "is the unit missing?"},
	{why: "a limit of millibytes", spec: "domain: {memory: {guest: 1Gi}, resources: {limits: {memory: 512m}}}",
		legal: "domain: {memory: {guest: 1Gi}, resources: {limits: {memory: 2Gi}}}", path: "spec.domain.resources.limits.memory: Invalid value: \"512m\"",
		remedy: "'m' is a thousandth of a byte"},
	{why: "pages of no architecture", spec: "domain: {memory: {guest: 129Mi, hugepages: {pageSize: 3Mi}}}",
		legal: "domain: {memory: {guest: 128Mi, hugepages: {pageSize: 2Mi}}}", path: "spec.domain.memory.hugepages.pageSize: Invalid value: \"3Mi\"",
		remedy: "architecture 'amd64' has no huge pages of this size: use 2Mi, 1Gi"},
	{why: "pages of bytes", spec: "domain: {memory: {guest: 128Mi, hugepages: {pageSize: \"2048\"}}}",
		legal: "domain: {memory: {guest: 128Mi, hugepages: {pageSize: 2048Ki}}}", path: "spec.domain.memory.hugepages.pageSize: Invalid value: \"2048\"",
		remedy: "is the unit missing?"},
	{why: "no cores", spec: "domain: {cpu: {cores: 0}, memory: {guest: 1Gi}}", legal: "domain: {cpu: {cores: 1}, memory: {guest: 1Gi}}",
		path: "cpu.cores of 0 is as if it were not written", remedy: "the default or the instancetype decides", warned: true},
	{why: "no sockets and threads", spec: "domain: {cpu: {sockets: 0, threads: 0}, memory: {guest: 1Gi}}",
		legal: "domain: {cpu: {sockets: 1, threads: 1}, memory: {guest: 1Gi}}", path: "cpu.sockets, cpu.threads of 0 is as if it were not written",
		remedy: "the default or the instancetype decides", warned: true},
	{why: "more CPUs than machines have", spec: "domain: {cpu: {cores: 100000}, memory: {guest: 1Gi}}",
		legal: "domain: {cpu: {cores: 2}, memory: {guest: 1Gi}}", path: "spec.domain.cpu", remedy: "4096"},
	{why: "less time than nothing", spec: "terminationGracePeriodSeconds: -5, domain: {memory: {guest: 1Gi}}",
		legal: "terminationGracePeriodSeconds: 0, domain: {memory: {guest: 1Gi}}",
		path:  "spec.terminationGracePeriodSeconds: Invalid value: -5", remedy: "must not be negative"},
	{why: "an invalid label", spec: "nodeSelector: {a b: c}, domain: {memory: {guest: 1Gi}}", legal: "nodeSelector: {a: c}, domain: {memory: {guest: 1Gi}}",
		path: "spec.nodeSelector[a b]: Invalid value: \"a b\"", remedy: "name part must consist of alphanumeric characters"},
	{why: "a disk without a size", spec: "domain: {memory: {guest: 1Gi}}, volumes: [{name: a, emptyDisk: {}}]",
		legal: "domain: {memory: {guest: 1Gi}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]",
		path:  "spec.volumes[0].emptyDisk.capacity: Required value", remedy: "such as"},
	{why: "a disk of bytes", spec: "domain: {memory: {guest: 1Gi}}, volumes: [{name: a, emptyDisk: {capacity: 512}}]",
		legal: "domain: {memory: {guest: 1Gi}}, volumes: [{name: a, emptyDisk: {capacity: 512Mi}}]",
		path:  "emptyDisk.capacity '512' of volume 'a' is less than 1M", remedy: "is the unit missing?", warned: true},
	{why: "a GPU of a bare machine", spec: "domain: {memory: {guest: 1Gi}, devices: {gpus: [{name: g, deviceName: example.org/gpu}]}}",
		legal: "domain: {memory: {guest: 1Gi}, devices: {}}",
		path:  "spec.domain.devices.gpus[0]: Forbidden", remedy: "let the guest run in a pod"},
}

const sizeKinds, preferenceKinds = "VirtualMachineInstancetype VirtualMachineClusterInstancetype", "VirtualMachinePreference VirtualMachineClusterPreference"

// absurdCatalogs are in the spec of these kinds, which give VMIs their values.
var absurdCatalogs = []struct {
	kinds string
	absurdity
}{
	{sizeKinds, absurdity{why: "bytes", spec: "cpu: {guest: 1}, memory: {guest: 128}", legal: "cpu: {guest: 1}, memory: {guest: 128Mi}",
		path: "spec.memory.guest: Invalid value: \"128\"", remedy: "is the unit missing?"}},
	{sizeKinds, absurdity{why: "millibytes", spec: "cpu: {guest: 1}, memory: {guest: 128m}", legal: "cpu: {guest: 1}, memory: {guest: 128M}",
		path: "spec.memory.guest: Invalid value: \"128m\"", remedy: "'m' is a thousandth of a byte"}},
	{sizeKinds, absurdity{why: "beyond addresses", spec: "cpu: {guest: 1}, memory: {guest: 5Pi}", legal: "cpu: {guest: 1}, memory: {guest: 4Ti}",
		path: "spec.memory.guest: Invalid value: \"5Pi\"", remedy: "at most 4Pi"}},
	{sizeKinds, absurdity{why: "a ceiling beyond addresses", spec: "cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 5Pi}",
		legal: "cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 2Gi}", path: "spec.memory.maxGuest: Invalid value: \"5Pi\"", remedy: "at most 4Pi"}},
	{sizeKinds, absurdity{why: "a ceiling of bytes", spec: "cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 2}",
		legal: "cpu: {guest: 1}, memory: {guest: 1Gi, maxGuest: 2Gi}", path: "spec.memory.maxGuest: Invalid value: \"2\"", remedy: "is the unit missing?"}},
	{sizeKinds, absurdity{why: "no memory", spec: "cpu: {guest: 1}, memory: {guest: 0}", legal: "cpu: {guest: 1}, memory: {guest: 1M}",
		path: "spec.memory.guest: Invalid value: \"0\"", remedy: "must be greater than 0"}},
	{sizeKinds, absurdity{why: "no CPU", spec: "cpu: {guest: 0}, memory: {guest: 1Gi}", legal: "cpu: {guest: 1}, memory: {guest: 1Gi}",
		path: "spec.cpu.guest: Invalid value: 0", remedy: "must be at least 1"}},
	{sizeKinds, absurdity{why: "pages", spec: "cpu: {guest: 1}, memory: {guest: 129Mi, hugepages: {pageSize: 3Mi}}",
		legal: "cpu: {guest: 1}, memory: {guest: 128Mi, hugepages: {pageSize: 32Mi}}", path: "spec.memory.hugepages.pageSize: Invalid value: \"3Mi\"",
		remedy: "no architecture has huge pages of this size: use one of"}},
	{sizeKinds, absurdity{why: "a selector", spec: "cpu: {guest: 1}, memory: {guest: 1Gi}, nodeSelector: {a b: c}",
		legal: "cpu: {guest: 1}, memory: {guest: 1Gi}, nodeSelector: {a: c}", path: "spec.nodeSelector[a b]", remedy: "alphanumeric characters"}},
	{preferenceKinds, absurdity{why: "time", spec: "preferredTerminationGracePeriodSeconds: -5", legal: "preferredTerminationGracePeriodSeconds: 0",
		path: "spec.preferredTerminationGracePeriodSeconds: Invalid value: -5", remedy: "must not be negative"}},
	{preferenceKinds, absurdity{why: "memory that is required", spec: "requirements: {memory: {guest: 128}}", legal: "requirements: {memory: {guest: 128Mi}}",
		path: "spec.requirements.memory.guest: Invalid value: \"128\"", remedy: "is the unit missing?"}},
	{preferenceKinds, absurdity{why: "memory that no guest has", spec: "requirements: {memory: {guest: 5Pi}}", legal: "requirements: {memory: {guest: 1Gi}}",
		path: "spec.requirements.memory.guest: Invalid value: \"5Pi\"", remedy: "at most 4Pi"}},
	{preferenceKinds, absurdity{why: "millibytes that are required", spec: "requirements: {memory: {guest: 128m}}", legal: "requirements: {memory: {guest: 128M}}",
		path: "spec.requirements.memory.guest: Invalid value: \"128m\"", remedy: "'m' is a thousandth of a byte"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "bytes", spec: "selector: {}, template: {spec: {domain: {memory: {guest: 128}}}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {domain: {memory: {guest: 128Mi}}}}",
		path:  "spec.template.spec.domain.memory.guest: Invalid value: \"128\"", remedy: "is the unit missing?"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "millibytes", spec: "selector: {}, template: {spec: {domain: {memory: {guest: 128m}}}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {domain: {memory: {guest: 128M}}}}",
		path:  "spec.template.spec.domain.memory.guest: Invalid value: \"128m\"", remedy: "'m' is a thousandth of a byte"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "a unit of others", spec: "selector: {}, template: {spec: {domain: {memory: {guest: 2 GiB}}}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {domain: {memory: {guest: 2Gi}}}}",
		path:  "spec.template.spec.domain.memory.guest: Invalid value: \"2 GiB\"", remedy: "write 2Gi"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "beyond addresses", spec: "selector: {}, template: {spec: {domain: {memory: {guest: 5Pi}}}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {domain: {memory: {guest: 4Ti}}}}",
		path:  "spec.template.spec.domain.memory.guest: Invalid value: \"5Pi\"", remedy: "at most 4Pi"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "pages", spec: "selector: {}, template: {spec: {domain: {memory: {hugepages: {pageSize: 3Mi}}}}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {domain: {memory: {hugepages: {pageSize: 2Mi}}}}}",
		path:  "spec.template.spec.domain.memory.hugepages.pageSize: Invalid value: \"3Mi\"", remedy: "has no huge pages of this size"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "time", spec: "selector: {}, template: {spec: {terminationGracePeriodSeconds: -5}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {terminationGracePeriodSeconds: 5}}",
		path:  "spec.template.spec.terminationGracePeriodSeconds: Invalid value: -5", remedy: "must not be negative"}},
	{"GuestProfile ClusterGuestProfile", absurdity{why: "a selector", spec: "selector: {}, template: {spec: {nodeSelector: {a b: c}}}",
		legal: "selector: {matchLabels: {no: vmi}}, template: {spec: {nodeSelector: {a: c}}}",
		path:  "spec.template.spec.nodeSelector[a b]", remedy: "alphanumeric characters"}},
}

// absurdFlags are command lines of 'kubectl kiln create'.
var absurdFlags = []struct{ line, legal, remedy string }{
	{"vm --name a --memory 1", "vm --name a --memory 1M", "--memory: '1' is less than 1M: is the unit missing?"},
	{"vm --name a --memory 128m", "vm --name a --memory 128M", "--memory: '128m' is less than 1M: is the unit missing?"},
	{"vm --name a --memory 128MB", "vm --name a --memory 128Mi", "--memory: '128MB': must be a quantity: write 128M or 128Mi"},
	{"vm --name a --memory 5Pi", "vm --name a --memory 4Ti", "--memory: '5Pi' is more than 4Pi, which is what processors address"},
	{"vm --name a --memory -1Gi", "vm --name a --memory 1Gi", "--memory: '-1Gi' is less than 1M"},
	{"vm --name a --termination-grace-period -5", "vm --name a --termination-grace-period 0", "--termination-grace-period: '-5' must not be negative"},
	{"vm --volume-import type:blank,size:1GB --name a", "vm --volume-import type:blank,size:1G --name a", "size '1GB': must be a quantity: write 1G or 1Gi"},
	{"vm --name " + strings.Repeat("c", 253), "vm --name " + strings.Repeat("c", 200), "--name: Too long: may not be more than "},
	{"instancetype --name a --cpu 1 --memory 1", "instancetype --name a --cpu 1 --memory 1Mi", "spec.memory.guest: Invalid value: \"1\": must be at least 1M"},
	{"instancetype --name a --cpu 1 --memory 128m", "instancetype --name a --cpu 1 --memory 128M", "'m' is a thousandth of a byte"},
	{"instancetype --name a --cpu 1 --memory 128MB", "instancetype --name a --cpu 1 --memory 128Mi", "--memory: '128MB': must be a quantity: write 128M or 128Mi"},
	{"instancetype --name a --cpu 1 --memory 5Pi", "instancetype --name a --cpu 1 --memory 4Ti", "at most 4Pi"},
	{"instancetype --name a --cpu 0 --memory 1Gi", "instancetype --name a --cpu 1 --memory 1Gi", "must be at least 1"},
}

// written writes a manifest to a file, and returns its name.
func (s space) written(manifest string) string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// TestAbsurdValues sends each value that nobody means to a real API server with the webhooks, and gives it to 'validate'. The error or the warning names
// the path and a remedy. The nearest legal value is admitted without one.
func TestAbsurdValues(t *testing.T) {
	s := newSpace(t)
	config := filepath.Join(s.on.Dir, "configuration.yaml") // the webhook's: there is no warning about what an assumed configuration lacks
	var legal, paths []string                               // of all neighbours
	judge := func(version, kind string, a absurdity) {
		t.Helper()
		absurd, path := objectOf(version, kind, s.name, a.spec), a.path
		if kind == "VirtualMachine" && !a.warned {
			path = strings.Replace(path, "spec.", "spec.template.spec.", 1)
		}
		legal, paths = append(legal, objectOf(version, kind, s.name, a.legal)), append(paths, path)
		for who, answer := range map[string]answer{
			"cluster": s.kubectl(absurd, "create", "--dry-run=server", "-f", "-"),
			"offline": s.kiln("validate", "-f", s.written(absurd), "--config", config, "--runtime", "node"),
		} {
			if (answer.err == nil) != a.warned || !strings.Contains(answer.stderr, path) || !strings.Contains(answer.stderr, a.remedy) {
				t.Errorf("%s, %s, %s: %s: want '%s' and '%s', refused %t, got %v\n%s", who, kind, a.why, a.spec, path, a.remedy, !a.warned, answer.err, answer.stderr)
			}
		}
	}
	for _, a := range absurdGuests {
		judge("kubevirt.io/v1", "VirtualMachine", a)
		judge("kubevirt.io/v1", "VirtualMachineInstance", a)
	}
	for _, a := range absurdCatalogs {
		for _, kind := range strings.Fields(a.kinds) {
			version := "instancetype.kubevirt.io/v1beta1"
			if strings.HasSuffix(kind, "Profile") {
				version = "kilnvm.io/v1alpha1"
			}
			judge(version, kind, a.absurdity)
		}
	}
	all := strings.Join(legal, "\n---\n")
	for who, answer := range map[string]answer{
		"cluster": s.kubectl(all, "create", "--dry-run=server", "-f", "-"), "offline": s.kiln("validate", "-f", s.written(all), "--config", config),
	} {
		s.must(answer)
		for _, path := range paths {
			if strings.Contains(answer.stderr, path) {
				t.Errorf("%s: '%s' is reported for a legal neighbour:\n%s", who, path, answer.stderr)
			}
		}
	}
	for _, a := range absurdFlags {
		for i, line := range []string{a.line, a.legal} {
			answer := s.kiln(append([]string{"create"}, strings.Fields(line)...)...)
			if reported := strings.Contains(answer.stderr, a.remedy); reported != (i == 0) || (answer.err == nil) != (i == 1) {
				t.Errorf("create %.60s: want '%s' %t, got %v: %s", line, a.remedy, i == 0, answer.err, answer.stderr)
			}
		}
	}
}

// objectOf returns a manifest with a spec. The spec of a VM goes into its template.
func objectOf(version, kind, name, spec string) string {
	if version == "kubevirt.io/v1" && !strings.Contains(spec, "devices:") {
		spec = strings.Replace(spec, "domain: {", "domain: {devices: {}, ", 1)
	}
	if kind == "VirtualMachine" {
		spec = "runStrategy: Halted, template: {spec: {" + spec + "}}"
	}
	return "{apiVersion: " + version + ", kind: " + kind + ", metadata: {name: " + name + "}, spec: {" + spec + "}}"
}

// TestAbsurdMetadata: names of no domain are refused, and annotations of nobody's are warned of, in VMs and VMIs.
func TestAbsurdMetadata(t *testing.T) {
	s := newSpace(t)
	const guest = "{domain: {devices: {}, memory: {guest: 1Gi}}}"
	for kind, spec := range map[string]string{"VirtualMachine": "{runStrategy: Halted, template: {spec: " + guest + "}}", "VirtualMachineInstance": guest} {
		for _, test := range []struct {
			meta, want string
			refused    bool
		}{
			{"name: " + strings.Repeat("c", 253), "metadata.name: Too long: may not be more than ", true},
			{"name: " + strings.Repeat("c", 150), "", false},
			{"name: a, annotations: {kilnvm.io/harware: latest}",
				"annotation 'kilnvm.io/harware' has no effect: Kiln has no such key; did you mean 'kilnvm.io/hardware'?", false},
			{"name: a, annotations: {kilnvm.io/bogus: x}", "annotation 'kilnvm.io/bogus' has no effect", false},
			{"name: a, annotations: {kilnvm.io/hardware: latest}", "", false},
		} {
			result := s.kubectl("{apiVersion: kubevirt.io/v1, kind: "+kind+", metadata: {"+test.meta+"}, spec: "+spec+"}", "create", "--dry-run=server", "-f", "-")
			if (result.err != nil) != test.refused || !strings.Contains(result.stderr, test.want) || test.want == "" && strings.Contains(result.stderr, "kilnvm.io/") {
				t.Errorf("%s {%.60s}: refused %t, want '%s': %s", kind, test.meta, result.err != nil, test.want, result.stderr)
			}
		}
	}
}

// TestAbsurdIdentity: a user who changes the identity of a running VM is warned that its guest keeps it.
func TestAbsurdIdentity(t *testing.T) {
	s := newSpace(t)
	s.create(vm("web", running...))
	s.eventually("the VM has a VMI", func() bool { return field(s.get("vm", "web"), "status", "created") == true })
	result := s.must(s.kubectl("", "annotate", "vm", "web", "kilnvm.io/identity=x", "--overwrite"))
	if !strings.Contains(result.stderr, "the guest keeps UUID, serial and MACs until it starts with 'kilnvm.io/hardware: latest'") {
		t.Errorf("another identity: %s", result.stderr)
	}
}
