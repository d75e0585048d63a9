package hostresources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
)

// TestZones: a guest whose time zone the host does not have is refused, because its clock would be at UTC in silence.
func TestZones(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "zoneinfo/Europe"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"zoneinfo/Europe/Vienna": "TZif2", "zoneinfo/zone.tab": "# text", "outside": "TZif2", "zoneinfo/short": "TZ"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"zoneinfo/Europe/Bratislava": "Vienna", "zoneinfo/link": "../outside"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for zone, want := range map[string]string{
		"Europe/Vienna": "", "Europe/Bratislava": "", "": "",
		"Mars/Olympus": "has no file of that name; install the time zones of the host", "Europe": "it is a folder", "zone.tab": "is no time zone",
		"short": "is no time zone", "../outside": "cannot be read", "link": "cannot be read", "/etc/localtime": "cannot be read",
	} {
		name := v1.ClockOffsetTimezone(zone)
		errs := checkZone(filepath.Join(dir, "zoneinfo"), &v1.Clock{ClockOffset: v1.ClockOffset{Timezone: &name}})
		if refused(t, zone, want, errs.ToAggregate()); len(errs) > 0 {
			if diff := cmp.Diff("spec.domain.clock.timezone", errs[0].Field); diff != "" {
				t.Error(diff)
			}
		}
		if errs := checkZone(dir, &v1.Clock{ClockOffset: v1.ClockOffset{Timezone: &name, UTC: &v1.ClockOffsetUTC{}}}); len(errs) > 0 {
			t.Errorf("a clock at UTC needs no time zone: %v", errs)
		}
	}
	vienna := v1.ClockOffsetTimezone("Europe/Vienna")
	errs := checkZone(filepath.Join(dir, "none"), &v1.Clock{ClockOffset: v1.ClockOffset{Timezone: &vienna}})
	refused(t, "a host without time zones", "is missing; install the time zones of the host (package tzdata)", errs.ToAggregate())
}

// TestZonesOfBindings: pods and bare machines look for the zone before anything is started.
func TestZonesOfBindings(t *testing.T) {
	mars := v1.ClockOffsetTimezone("Mars/Olympus")
	vmi := having(v1.VolumeSource{EmptyDisk: emptyDiskOf("1Mi")})
	vmi.Spec.Domain.Clock = &v1.Clock{ClockOffset: v1.ClockOffset{Timezone: &mars}}
	const want = "spec.domain.clock.timezone: Invalid value: \"Mars/Olympus\": this host has no such time zone"
	_, errs := mounted(t, nil).Bind(t.Context(), vmi)
	refused(t, "a pod", want, errs.ToAggregate())
	host, _ := testHost(t)
	_, errs = host.Bind(t.Context(), vmi, nil)
	refused(t, "a bare machine", want, errs.ToAggregate())
}
