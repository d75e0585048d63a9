package validate_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the database that the table is of, on machines without one

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
