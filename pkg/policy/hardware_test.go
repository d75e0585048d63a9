package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	v1 "kubevirt.io/api/core/v1"
)

// recorded returns a source of a hardware record, and the number of its calls.
func recorded(hardware *v1alpha1.HardwareRecord, err error) (func() (*v1alpha1.HardwareRecord, error), *int) {
	calls := new(int)
	return func() (*v1alpha1.HardwareRecord, error) {
		*calls++
		return hardware, err
	}, calls
}

// TestHardware: a policy reads the record with types, as far as it reads it, and only once.
func TestHardware(t *testing.T) {
	t.Parallel()
	whole := &v1alpha1.HardwareRecord{
		Defaults: "1", Machine: "pc-q35-7.2", Video: "bochs", USB: "piix3-uhci", FreePorts: 3, TSC: 2_000_000_000, SMBIOS: map[string]string{"manufacturer": "x"},
		NUMA: []v1alpha1.GuestNUMANode{{CPUs: "0-1", MemoryKiB: 1 << 20}}, BlockSizes: map[string]v1alpha1.GuestBlockSize{"root": {Logical: 512, Physical: 4096}},
		CPU: &v1alpha1.GuestCPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm"}, DisabledFeatures: []string{"monitor"},
			PhysicalBits: 46, Topology: v1alpha1.GuestCPUTopology{Sockets: 1, Cores: 2, Threads: 1}, Verified: true},
		Devices: map[string]v1alpha1.GuestAddress{"disk.root": {PCI: "0000:05:00.0", Target: "vda"}, "floppy.a": {Drive: "0:0:0:0", Index: new(uint(2))}},
	}
	for _, test := range []struct {
		expression, want string
		hardware         *v1alpha1.HardwareRecord
		none             bool
	}{
		{expression: "hardware == null || hardware.machine.startsWith('pc-q35-')", hardware: whole},
		{expression: "hardware == null || !hardware.machine.startsWith('pc-q35-7')", hardware: whole, want: "refused"},
		{expression: "hardware == null", hardware: whole, want: "refused"},
		{expression: "hardware == null", none: true},
		{expression: "hardware == null"},
		{expression: "!hardware.devices.exists(d, d.startsWith('floppy.'))", hardware: whole, want: "refused"},
		{expression: "hardware.devices['floppy.a'].index == 2 && hardware.devices['disk.root'].target == 'vda'", hardware: whole},
		{expression: "hardware.freePorts + hardware.tsc == 2000000003 && hardware.blockSizes.root.physical == 4096", hardware: whole},
		{expression: "hardware.numa.all(n, n.memoryKiB == 1048576) && hardware.smbios.manufacturer == 'x'", hardware: whole},
		{expression: "!has(hardware.vsock) && hardware.?serial.orValue('') == ''", hardware: whole},
		{expression: "!hardware.cpu.features.exists(f, f == 'svm')", hardware: whole, want: "refused"},
		{expression: "hardware.cpu.model == 'EPYC' && hardware.cpu.vendor == 'AMD' && hardware.cpu.verified && !has(hardware.cpu.firstSeen)", hardware: whole},
		{expression: "'monitor' in hardware.cpu.disabledFeatures && hardware.cpu.topology.cores == 2 && hardware.cpu.physicalBits == 46", hardware: whole},
		{expression: "hardware == null || !has(hardware.cpu) || !('svm' in hardware.cpu.features)", hardware: &v1alpha1.HardwareRecord{Machine: "pc-q35-7.2"}},
		{expression: "hardware.machine == 'x'", want: "no such key"},
	} {
		request := small()
		calls := new(int)
		if !test.none {
			request.Hardware, calls = recorded(test.hardware, nil)
		}
		one := compile(t, "one", `{validations: [{expression: "`+test.expression+`", message: refused}, {expression: "`+test.expression+`", message: refused}]}`)
		result := policy.Judge(nil, []*policy.Policy{one, compile(t, "two", `{validations: [{expression: "hardware == null || true"}]}`)}, request)
		var texts []string
		for _, err := range result.Errors {
			texts = append(texts, err.Error())
		}
		if got := strings.Join(texts, "\n"); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: '%s', want '%s'", test.expression, got, test.want)
		}
		if *calls > 1 {
			t.Errorf("%s: the record is read %d times", test.expression, *calls)
		}
	}
	request := small()
	hardware, calls := recorded(whole, nil)
	request.Hardware = hardware
	if policy.Judge(nil, []*policy.Policy{compile(t, "one", `{validations: [{expression: "object != null"}]}`)}, request); *calls != 0 {
		t.Error("a policy that does not name hardware has it read")
	}
}

// TestHardwareThatCannotBeRead: the failurePolicy decides, and the answer says why. It is tried once.
func TestHardwareThatCannotBeRead(t *testing.T) {
	t.Parallel()
	request := small()
	hardware, calls := recorded(nil, errors.New("the API server is gone"))
	request.Hardware = hardware
	var all []*policy.Policy
	for _, name := range []string{"one", "two"} {
		all = append(all, compile(t, name, `{validations: [{expression: "hardware == null"}]}`))
	}
	all = append(all, compile(t, "three", `{failurePolicy: Ignore, validations: [{expression: "hardware == null"}]}`))
	result := policy.Judge(nil, all, request)
	if len(result.Errors) != 2 || len(result.Warnings) != 1 || *calls != 1 || !strings.Contains(result.Errors[1].Detail, "the API server is gone") {
		t.Errorf("%v, %v, %d calls", result.Errors, result.Warnings, *calls)
	}
}

// TestHardwareIsTyped: a field that a record does not have is an error of the policy, and a costly loop too.
func TestHardwareIsTyped(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"hardware.machines == ''":       "undefined field 'machines'",
		"hardware.cpu.models == ''":     "undefined field 'models'",
		"hardware.freePorts == 'three'": "found no matching overload",
		"hardware.unknown == null":      "undefined field 'unknown'",
		"hardware.devices.all(a, hardware.devices.all(b, hardware.devices.all(c, a + b + c != '')))": "may cost",
	} {
		_, errs := policy.Compile(read(t, "test", `{validations: [{expression: "`+expression+`"}]}`))
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want '%s'", expression, errs, want)
		}
	}
	_, errs := policy.AsValidatingPolicy(read(t, "p", `{validations: [{expression: "hardware == null"}]}`), nil)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "it reads 'hardware'") {
		t.Errorf("policy compile: %v", errs)
	}
}

// TestReadsChangeOfHardware: a violation is an old one only if the record that it reads was the same before.
func TestReadsChangeOfHardware(t *testing.T) {
	t.Parallel()
	one, other := &v1alpha1.HardwareRecord{Machine: "a", Video: "v"}, &v1alpha1.HardwareRecord{Machine: "b", Video: "v"}
	for _, test := range []struct {
		expression  string
		before, now *v1alpha1.HardwareRecord
		changes     bool
	}{
		{"hardware.machine == 'c'", one, one, false},
		{"hardware.machine == 'c'", one, other, true},
		{"hardware.video == 'c'", one, other, false},
		{"hardware != null", nil, one, true},
		{"hardware != null", one, one, false},
		{"hardware != null", one, other, true},
		{"has(hardware.machine)", one, other, false},
		{"object != null", one, other, false},
	} {
		p := compile(t, "p", `{validations: [{expression: "`+test.expression+`"}]}`)
		before, now := small(), small()
		before.Hardware, _ = recorded(test.before, nil)
		now.Hardware, _ = recorded(test.now, nil)
		now.Object.(*v1.VirtualMachine).Generation = 2
		if got := p.ReadsChange(0, before, now); got != test.changes {
			t.Errorf("%s: %t", test.expression, got)
		}
	}
}
