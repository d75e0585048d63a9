package e2e

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oldPreset is a preset of four areas.
const oldPreset = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstancePreset
metadata: {name: web}
spec:
  selector: {matchLabels: {tier: web}}
  domain:
    ioThreadsPolicy: shared
    clock: {utc: {}, timer: {hpet: {present: false}, pit: {tickPolicy: delay}}}
    features: {smm: {enabled: true}}
    devices: {watchdog: {name: dog, i6300esb: {action: reset}}}
`

// webTier changes a VM so that the preset matches it.
var webTier = []string{"  template:", "  template:\n    metadata: {labels: {tier: web}}"}

// TestPresetsAreMigrated: presets become profiles and are deleted. A VM that exists restarts as it was, also after it was repinned, and a new VM gets the
// domain that it would have had from the preset.
func TestPresetsAreMigrated(t *testing.T) {
	s := newSpace(t)
	s.must(s.kubectl(oldPreset, "apply", "-f", "-"))
	late := vm("late", append(append([]string{}, webTier...), "metadata: {name: late}",
		"metadata: {name: late, annotations: {kilnvm.io/identity: 8c4f0c1e-0001-4000-8000-000000000001}}")...)
	s.awaitFilling("the webhooks know the preset", "shared kubevirt.io/v1")
	s.create(vm("old", append(append([]string{}, webTier...), running...)...))
	s.create(late)
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "old") })
	before, domain, lateDomain := s.get("vmi", "old"), s.domain("old"), s.domain("late")
	if !strings.Contains(domain, "i6300esb") || field(before, "spec", "domain", "ioThreadsPolicy") != "shared" {
		t.Fatalf("the preset has no effect:\n%s", domain)
	}
	s.must(s.kubectl("", "delete", "vm", "late", "--timeout=60s"))

	folder := filepath.Join(t.TempDir(), "profiles")
	output := s.must(s.kiln("preset", "migrate", "--output-dir", folder)).stdout
	for _, text := range []string{"GuestProfile " + s.name + "/web\n", "VMs and VMIs: 1 equal\n", "1 VM pinned to presets"} {
		if !strings.Contains(output, text) {
			t.Errorf("no '%s' in\n%s", text, output)
		}
	}
	s.must(s.kubectl("", "apply", "-R", "-f", folder))
	s.must(s.kubectl("", "delete", "virtualmachineinstancepreset", "web"))
	s.awaitFilling("the webhooks know the profile", "shared ")

	s.restart("old")
	s.sameGuest("old", before.Object["spec"], domain)
	if pinned := s.get("vm", "old").GetAnnotations()[pinsAnnotation]; !strings.Contains(pinned, `"presets":["web-`) {
		t.Errorf("the VM has lost its pin of the preset: %s", pinned)
	}
	s.create(late)
	generation := regexp.MustCompile(`<genid>.*</genid>`) // it is another VM of the same identity
	if diff := cmp.Diff(generation.ReplaceAllString(lateDomain, ""), generation.ReplaceAllString(s.domain("late"), "")); diff != "" {
		t.Errorf("a new VM has another domain (-preset +profile):\n%s", diff)
	}

	var answer struct {
		Items []struct{ Difference struct{ Verdict string } }
	}
	s.eventually("the VM is repinned", func() bool { // the controller writes its status meanwhile
		got := s.kiln("repin", "vm/old", "--presets", "--profiles", "-o", "json")
		return got.err == nil && json.Unmarshal([]byte(got.stdout), &answer) == nil && len(answer.Items) == 1
	})
	if pinned, verdict := s.get("vm", "old").GetAnnotations()[pinsAnnotation], answer.Items[0].Difference.Verdict; verdict != "compatible" ||
		strings.Contains(pinned, `"presets":["web-`) ||
		!strings.Contains(pinned, `"profiles":["web-`) {
		t.Errorf("%s: %s", verdict, pinned)
	}
	s.restart("old")
	s.sameGuest("old", before.Object["spec"], domain)
}

// domain is the libvirt domain of a VM of the cluster.
func (s space) domain(name string) string {
	s.Helper()
	return s.must(s.kiln("render", "vm/"+name)).stdout
}

// sameGuest expects that the VMI of a VM has this spec, and its domain this text.
func (s space) sameGuest(name string, spec any, domain string) {
	s.Helper()
	if diff := cmp.Diff(spec, s.get("vmi", name).Object["spec"]); diff != "" {
		s.Errorf("VM '%s' has another VMI (-before +after):\n%s", name, diff)
	}
	if diff := cmp.Diff(domain, s.domain(name)); diff != "" {
		s.Errorf("VM '%s' has another domain (-before +after):\n%s", name, diff)
	}
}

// awaitFilling waits until all webhooks give a VMI of the tier this policy of IO threads and mark of the preset: as often in a row as leaves no replica out.
func (s space) awaitFilling(what, want string) {
	s.Helper()
	const guest = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: probe, labels: {tier: web}}, " +
		"spec: {domain: {memory: {guest: 128Mi}, devices: {}}}}"
	const shown = `jsonpath={.spec.domain.ioThreadsPolicy} {.metadata.annotations.virtualmachinepreset\.kubevirt\.io/web}`
	row := 0
	s.eventually(what, func() bool {
		if row++; s.kubectl(guest, "create", "--dry-run=server", "-o", shown, "-f", "-").stdout != want {
			row = 0
		}
		return row == 4
	})
}
