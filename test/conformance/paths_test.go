package main

import "testing"

func TestTruePaths(t *testing.T) {
	t.Parallel()
	guest := map[string]any{"domain": map[string]any{"cpu": map[string]any{"cores": 1.0}, "devices": map[string]any{"disks": []any{map[string]any{"name": "a"}}}}}
	vm := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": guest}}}
	const base = "spec.template.spec"
	for _, test := range []struct{ name, why, field, message, want string }{
		{"true", "", base + ".domain.cpu.cores", "", base + ".domain.cpu.cores"},
		{"absent field", "its user can write into what there is", base + ".domain.memory.guest", "", base + ".domain.memory"},
		{"several counts", "a product is the CPU's", base + ".domain.cpu.sockets, " + base + ".domain.cpu.cores", "", base + ".domain.cpu"},
		{"three counts", "", base + ".domain.cpu.cores, " + base + ".domain.cpu.sockets, " + base + ".domain.cpu.threads", "", base + ".domain.cpu"},
		{"doubled path", "", base + ".domain.devices.disks.domain.devices.disks[0].name", "", base + ".domain.devices.disks[0].name"},
		{"size's field", "", "instancetype.spec.cpu.guest", "3 vCPUs", "spec.preference"},
		{"annotation", "", "annotations.a.b/c", "", "spec.template.metadata"},
		{"Secure Boot", "", base + ".domain", "has EFI SecureBoot enabled", base + ".domain.firmware"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := truePath(cause{Field: test.field, Message: test.message}, base, vm); got != test.want {
				t.Errorf("%s: got %s, want %s", test.why, got, test.want)
			}
		})
	}
}
