package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

// TestRenderWithWhatLiesBeside: configuration and profiles may be beside the VM; the flags replace them, and a
// profile for machines with labels is for a host that has been described.
func TestRenderWithWhatLiesBeside(t *testing.T) {
	const kubevirt = "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\n" +
		"spec: {configuration: {smbios: {manufacturer: Forge}}}\n"
	profile := func(name, spec string) string {
		return "apiVersion: kilnvm.io/v1alpha1\nkind: HostProfile\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	_, file := write(t, size, vm, kubevirt, profile("a", "{cpu: {shares: 2048}}"),
		profile("b", "{nodeSelector: {matchLabels: {rack: '1'}}, cpu: {quotaMicroseconds: 5000}}"),
		profile("of-others", "{vmiSelector: {matchLabels: {of: others}}, nodeSelector: {matchLabels: {rack: '1'}}, cpu: {quotaMicroseconds: 6000}}"))
	_, others := write(t, profile("c", "{cpu: {shares: 4096}}"))
	got := call(t, "", "render", "-f", file)
	if got.err != nil || !strings.Contains(got.out, "<shares>2048</shares>") || !strings.Contains(got.out, "Forge") || strings.Contains(got.out, "5000") ||
		got.errOut != "Warning: HostProfiles with a nodeSelector apply only to a host that --host describes, and are ignored: [\"b\"]\n" {
		t.Errorf("beside the VM: %v\n%s%s", got.err, got.out, got.errOut)
	}
	got = call(t, "", "render", "-f", file, "--profile", others)
	if got.err != nil || !strings.Contains(got.out, "<shares>4096</shares>") || !strings.Contains(got.out, "Forge") || got.errOut != "" {
		t.Errorf("profiles of the flag: %v\n%s%s", got.err, got.out, got.errOut)
	}
}

// TestProfilesAreJudged: by the schema, and by what no schema says.
func TestProfilesAreJudged(t *testing.T) {
	for _, c := range []struct{ why, spec, field string }{
		{"right", "{vmiSelector: {matchExpressions: [{key: tier, operator: Exists}]}, cpu: {shares: 2048}}", ""},
		{"an operator that there is not", "{vmiSelector: {matchExpressions: [{key: tier, operator: Like}]}}",
			"spec.vmiSelector.matchExpressions[0].operator: Unsupported value"},
		{"the key of no label", "{nodeSelector: {matchLabels: {'a b': c}}}", "spec.nodeSelector.matchLabels: Invalid"},
		{"an invalid list of CPUs", "{cpu: {emulatorCPUs: 3-1}}", "spec.cpu.emulatorCPUs: Invalid"},
		{"a template of what no VMI has", "{pathTemplates: {vnc: '/{{.Owner}}'}}", "spec.pathTemplates.vnc: Invalid"},
		{"a value out of bounds", "{cpu: {shares: 1}}", "spec.cpu.shares: Invalid"},
		{"a field that there is not", "{disk: {queueSize: 256}}", "spec.disk.queueSize: Forbidden: unknown field"},
	} {
		_, file := write(t, "apiVersion: kilnvm.io/v1alpha1\nkind: HostProfile\nmetadata: {name: a}\nspec: "+c.spec+"\n")
		got := call(t, "", "validate", "-f", file)
		if errors.Is(got.err, cmdutil.ErrRejected) != (c.field != "") || !strings.Contains(got.errOut, c.field) ||
			c.field == "" && got.out != "HostProfile a is accepted\n" {
			t.Errorf("%s: %v\n%s%s", c.why, got.err, got.out, got.errOut)
		}
	}
}

// TestRenderWithProfiles: those that select guest and host change the domain, and the error of a wrong one names its field.
func TestRenderWithProfiles(t *testing.T) {
	_, file := write(t, size, vm)
	host := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(host, []byte(hostKind+"{architecture: amd64, virtTypes: [qemu], emulators: {amd64: /usr/bin/qemu}, labels: {rack: '1'}}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	profile := func(name, spec string) string {
		return "apiVersion: kilnvm.io/v1alpha1\nkind: HostProfile\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	for _, test := range []struct {
		why      string
		profiles []string
		want     string // in the domain, or in the error
		rejected bool
	}{
		{"a profile for all", []string{profile("a", "{cpu: {shares: 2048}}")}, "<shares>2048</shares>", false},
		{"two come together", []string{profile("a", "{cpu: {shares: 2048}}"),
			profile("b", "{nodeSelector: {matchLabels: {rack: '1'}}, priority: 1, cpu: {shares: 4096}}")}, "<shares>4096</shares>", false},
		{"one for other hosts does not count", []string{profile("a", "{cpu: {shares: 2048}}"),
			profile("b", "{nodeSelector: {matchLabels: {rack: '2'}}, priority: 1, cpu: {shares: 4096}}")}, "<shares>2048</shares>", false},
		{"a disagreement", []string{profile("a", "{cpu: {shares: 2048}}"), profile("b", "{cpu: {shares: 4096}}")},
			"hostProfile.cpu.shares: Forbidden: HostProfiles 'a' and 'b' have priority 0 and set different values, 2048 and 4096; change a priority", true},
		{"an unknown field", []string{profile("a", "{cpu: {share: 2048}}")}, "spec.cpu.share: Forbidden: unknown field", false},
		{"an unknown value", []string{profile("a", "{disk: {cachePolicy: quick}}")}, "spec.disk.cachePolicy: Unsupported value", false},
		{"a selector that cannot be read", []string{profile("a", "{vmiSelector: {matchExpressions: [{key: tier, operator: In}]}}")},
			"HostProfile a: spec.vmiSelector.matchExpressions[0].values: Required", false},
		{"another kind", []string{vm}, "has a VirtualMachine, must have HostProfiles of kilnvm.io/v1alpha1", false},
	} {
		_, profiles := write(t, test.profiles...)
		got := call(t, "", "render", "-f", file, "--host", host, "--profile", profiles)
		text := got.out + got.errOut
		if got.err != nil {
			text += got.err.Error()
		}
		if !strings.Contains(text, test.want) || errors.Is(got.err, cmdutil.ErrRejected) != test.rejected {
			t.Errorf("%s: no '%s' in\n%s", test.why, test.want, text)
		}
	}
}
