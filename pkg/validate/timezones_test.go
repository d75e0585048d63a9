package validate_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the database that the table is of, on machines without one

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
)

// TestTimezones: package time knows each name of the table.
func TestTimezones(t *testing.T) {
	names := validate.TimezoneNames()
	if len(names) < 590 {
		t.Errorf("%d time zones, the database has 597", len(names))
	}
	for _, name := range names {
		if _, err := time.LoadLocation(name); err != nil {
			t.Errorf("'%s': %v", name, err)
		}
	}
}

// TestTimezoneHints: a mistyped zone comes with the nearest name, and others with an example.
func TestTimezoneHints(t *testing.T) {
	for zone, want := range map[string]string{"Europe/Viena": "did you mean 'Europe/Vienna'?", "Mars/Olympus": "such as 'Europe/Vienna'"} {
		errs := spec("domain: {clock: {timezone: "+zone+"}}")(t, config.Default().Limits)
		if len(errs) != 1 || !strings.HasSuffix(errs[0].Detail, want) {
			t.Errorf("'%s': %v, want '%s'", zone, errs, want)
		}
	}
}
