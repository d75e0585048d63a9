package record

import (
	"strings"
	"testing"
)

// TestBIOSIsChecked: libvirt and QEMU accept the strings of the BIOS that a record may have. A forged string is refused with its name.
func TestBIOSIsChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, refused string }{
		{"vendor", "SeaBIOS", ""}, {"version", "kiln-1", ""}, {"date", "04/01/2014", ""}, {"release", "0.0", ""}, {"release", "255.199", ""},
		{"vendor", "", "must not be empty"}, {"version", "a\x01b", "control characters"}, {"vendor", strings.Repeat("x", longestText+1), "at most"},
		{"date", "13/01/2014", "a date"}, {"date", "12/32/2014", "a date"}, {"date", "1/1/2014", "a date"}, {"date", "04/01/2014,x=y", "a date"},
		{"date", "04/01/1899", "a date"}, {"date", "04/01/20145", "a date"}, {"release", "256.0", "a release"}, {"release", "1", "a release"},
		{"release", "1.-1", "a release"}, {"release", "1.2,x=y", "a release"}, {"uefi", "on", "the name must be"}, {"", "", "the name must be"},
	} {
		err := CheckBIOS(test.name, test.text)
		if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%s '%.20s': %v, want '%s'", test.name, test.text, err, test.refused)
		}
	}
	forged := &Record{BIOS: map[string]string{"date": "today"}}
	if err := Check(forged); err == nil || !strings.Contains(err.Error(), "bios[date]") {
		t.Errorf("the record is refused with %v", err)
	}
	changes := Compare(Record{BIOS: map[string]string{"version": "1"}}, Record{BIOS: map[string]string{"version": "2"}})
	if len(changes) != 1 || changes[0].Verdict != Breaks {
		t.Errorf("another version of the BIOS is %v", changes)
	}
	omitted := &Record{OmittedDefaults: []string{OmittedSMBIOS}}
	if kept := KeepOmitted(omitted, &Record{BIOS: map[string]string{"version": "1"}}); len(kept) > 0 {
		t.Errorf("a guest with strings of the BIOS omits %v", kept)
	}
}
