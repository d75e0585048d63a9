package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const small = "SeaBIOS\r\n\r\nKILN-REPORT-BEGIN\r\n@ kernel=6.1\r\n[ 1.0] noise\r\n@ disk.vda.sectors=2\r\n" +
	"@ disk.vda.serial=a=b c\r\nKILN-REPORT-END 3\r\n"

// TestParseReport covers what happens to reports on real serial lines.
func TestParseReport(t *testing.T) {
	cases := []struct {
		why, text string
		fails     string // part of the error, "" for none
	}{
		{"firmware and kernel write to the same line", small, ""},
		{"nothing was written yet", "", "no complete guest report"},
		{"the guest was killed in mid-report", strings.TrimSuffix(small, "KILN-REPORT-END 3\r\n"), "no complete guest report"},
		{"after such a boot comes a whole one", "KILN-REPORT-BEGIN\n@ kernel=5.0\n" + small, ""},
		{"a lost line is noticed by the count", strings.Replace(small, "@ kernel=6.1\r\n", "", 1), "torn guest report"},
		{"a number cannot be parsed", strings.Replace(small, "sectors=2", "sectors=two", 1), `"two"`},
	}
	for _, c := range cases {
		t.Run(c.why, func(t *testing.T) {
			report, err := ParseReport(strings.NewReader(c.text))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error is '%v', want '%s'", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if report.Kernel != "6.1" || len(report.Disks) != 1 {
				t.Fatalf("report is %+v, want kernel 6.1 and one disk", report)
			}
			if d := report.Disks[0]; d.Name != "vda" || d.Bytes != 1024 || d.Serial != "a=b c" {
				t.Errorf("disk is %+v, want vda of two sectors with the whole serial", d)
			}
		})
	}
}

// TestParseReports: libvirt appends the serial output of later boots to the same file.
func TestParseReports(t *testing.T) {
	reports, err := ParseReports(strings.NewReader(small + strings.ReplaceAll(small, "6.1", "6.2")))
	if err != nil || len(reports) != 2 || reports[1].Kernel != "6.2" {
		t.Errorf("reports are %+v (%v), want two, the second from kernel 6.2", reports, err)
	}
}

// TestWaitReport: a half-written end marker must not be taken for a torn report, and a log that never
// gets its report ends with the context and shows what was there instead.
func TestWaitReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serial.log")
	half := strings.ReplaceAll(small, "KILN-REPORT-END 3\r\n", "KILN-REPORT-END ")
	if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := WaitReport(stopped, path, 1)
	if !errors.Is(err, ErrNoReport) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "SeaBIOS") {
		t.Errorf("error is '%v', want ErrNoReport with the cause and the log", err)
	}
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := WaitReport(t.Context(), path, 1)
	if err != nil || report.Kernel != "6.1" {
		t.Errorf("report is %+v (%v), want the one in the file", report, err)
	}
}
