package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTenantForgesNoProfiles: a tenant changes pins of profiles neither of a VM nor of a VMI that exists, and writes no revision.
func TestTenantForgesNoProfiles(t *testing.T) {
	s := newSpace(t)
	s.furnish()
	s.must(s.kubectl("", "create", "rolebinding", "tenant", "--clusterrole=kiln-edit", "--user=tenant"))
	s.create(web("demo"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	pinned := allPins(t, s.get("vm", "demo"))
	for _, forged := range []string{
		`{"presets":[],"profiles":[]}`,
		`{"presets":[],"profiles":["` + pinned.Profiles[0] + `"]}`,
		fmt.Sprintf(`{"presets":[],"profiles":[],"bases":["%s"]}`, strings.Join(pinned.Profiles, `","`)),
		`{"presets":[],"profiles":["web-aaaaaaaaaaaaaaaaaaaaaaaaaa"]}`,
	} {
		result := s.kubectl("", "annotate", "vm", "demo", "--overwrite", pinsAnnotation+"="+forged, "--as=tenant")
		if result.err == nil || !strings.Contains(result.stderr, "the pinned revision may not be replaced") {
			t.Errorf("%s: %s%s", forged, result.stdout, result.stderr)
		}
		result = s.kubectl("", "annotate", "vmi", "demo", "--overwrite", pinsAnnotation+"="+forged, "--as=tenant")
		if result.err == nil || !strings.Contains(result.stderr, "only controllers may change") {
			t.Errorf("%s on the VMI: %s%s", forged, result.stdout, result.stderr)
		}
	}
	unknown := s.kubectl(web("new", "metadata: {name: new}", `metadata: {name: new, annotations: {`+pinsAnnotation+
		`: '{"presets":[],"profiles":["web-aaaaaaaaaaaaaaaaaaaaaaaaaa"]}'}}`), "create", "--as=tenant", "-f", "-")
	if unknown.err != nil || !strings.Contains(unknown.stderr, "pins of profiles were dropped") {
		t.Errorf("a new VM with a revision that does not exist: %s%s", unknown.stdout, unknown.stderr)
	}
	if !cmp.Equal(pinned, allPins(t, s.get("vm", "demo"))) {
		t.Errorf("the pins are %+v, and were %+v", allPins(t, s.get("vm", "demo")), pinned)
	}
	if result := s.kubectl("", "get", "clusterguestprofiles", "--as=tenant"); result.err != nil {
		t.Errorf("a tenant does not see what fills its VMIs: %s", result.stderr)
	}
	if result := s.kubectl("", "delete", "clusterguestprofile", s.name+"-all", "--as=tenant"); result.err == nil {
		t.Error("a tenant deletes a profile of the cluster")
	}
	if result := s.kubectl("", "delete", "guestprofile", "web", "--as=tenant"); result.err != nil {
		t.Errorf("a tenant may not delete a profile of its namespace: %s", result.stderr)
	}
}

// TestRestoreWithProfiles: a backup of a VM and of its revisions brings the same guest back, whatever became of the profiles. Without the revisions of
// its profiles a VMI is refused by their names.
func TestRestoreWithProfiles(t *testing.T) {
	s := newSpace(t)
	s.create(web("older"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "older") })
	s.furnish()
	s.create(web("demo"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	was := allPins(t, s.get("vm", "demo"))
	saved, older := backup(t, s.get("vm", "demo")), backup(t, s.get("vm", "older"))
	var revisions []string
	for _, revision := range s.list("controllerrevision", "instancetype.kubevirt.io/object-kind") {
		revisions = append(revisions, backup(t, &revision))
	}
	s.must(s.kubectl("", "delete", "vm", "--all", "--timeout=60s"))
	s.eventually("the VMIs are gone", func() bool { return !s.exists("vmi", "demo") && !s.exists("vmi", "older") })
	s.must(s.kubectl("", "delete", "controllerrevision", "--all", writer))
	s.must(s.kubectl("", "delete", "guestprofile", "web"))
	s.clusterProfile("-all", "selector: {}, template: {metadata: {labels: {from: later}}}")

	lost := `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: lost, annotations: {` + pinsAnnotation +
		`: '{"presets":[],"profiles":["` + was.Profiles[0] + `"]}'}}, spec: {domain: {memory: {guest: 128Mi}, devices: {}}}}`
	s.eventually("a VMI of a profile whose revision is gone is refused by its name", func() bool {
		result := s.kubectl(lost, "create", "--dry-run=server", "-f", "-")
		return result.err != nil && strings.Contains(result.stderr, "'"+was.Profiles[0]+"'")
	})
	for _, revision := range revisions {
		s.must(s.kubectl(revision, "create", "-f", "-", writer))
	}
	for name, one := range map[string]struct {
		saved string
		want  filled
	}{"demo": {saved, fully}, "older": {older, filled{}}} {
		s.eventually("the webhook has seen the revisions, and the pins are kept", func() bool {
			return s.must(s.kubectl(one.saved, "create", "--dry-run=server", "-f", "-")).stderr == ""
		})
		s.create(one.saved)
		s.eventually("the VM has its VMI again", func() bool { return s.exists("vmi", name) })
		if diff := cmp.Diff(one.want, filledIn(s.get("vmi", name))); diff != "" {
			t.Errorf("'%s' is restored otherwise (-want +VMI):\n%s", name, diff)
		}
	}
	if now := allPins(t, s.get("vm", "demo")); !cmp.Equal(was, now) {
		t.Errorf("the restored VM has pins %+v, and had %+v", now, was)
	}
}

// TestProfilesReachTheGuest: a profile adds a device to the domain that libvirt runs. An edit of the profile changes the domain after a repin alone.
func TestProfilesReachTheGuest(t *testing.T) {
	s := newSpace(t)
	m := s.startMachine()
	dog := func(action string) {
		t.Helper()
		s.profile("dog", "selector: {matchLabels: {app: web}}, template: {spec: {domain: {devices: {watchdog: {name: dog, i6300esb: {action: "+action+"}}}}}}")
		s.eventually("the webhook knows the profile", func() bool { return filledIn(s.drySent("{app: web}", "{}")).Watchdog == action })
	}
	runs := func(when, action string) {
		t.Helper()
		s.says("vmi", "demo", phase, "Running")
		xml, err := m.ActiveXML(s.name + "_demo")
		if err != nil || !strings.Contains(xml, "<watchdog model='i6300esb' action='"+action+"'>") {
			t.Errorf("%s: %v, want a watchdog with action %s in\n%s", when, err, action, xml)
		}
	}
	dog("poweroff")
	s.create(onMachine("demo", m, "  template:\n", "  template:\n    metadata: {labels: {app: web}}\n"))
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	runs("a new VM", "poweroff")
	dog("reset")
	s.restarted("demo")
	runs("the profile was edited", "poweroff")
	s.must(s.kiln("repin", "vm/demo", "--profiles"))
	s.restarted("demo")
	runs("repinned", "reset")
}
