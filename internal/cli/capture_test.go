package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"sigs.k8s.io/yaml"
)

// TestCaptureTakesAGuestOver: the VM with the captured record renders the very domain that ran, though its own seed is another.
func TestCaptureTakesAGuestOver(t *testing.T) {
	t.Parallel()
	_, old := write(t, strings.Replace(plain, "name: web", "name: elsewhere", 1))
	ran := call(t, "", "render", "-f", old)
	if ran.err != nil {
		t.Fatal(ran.err, ran.errOut)
	}
	_, file := write(t, plain)
	got := call(t, ran.out, "capture", "-f", file, "--domain", "-")
	var hardware v1alpha1.GuestHardware
	if err := yaml.UnmarshalStrict([]byte(got.out), &hardware); err != nil || got.err != nil {
		t.Fatalf("%v %v\n%s%s", err, got.err, got.out, got.errOut)
	}
	if record := hardware.Spec.Hardware; hardware.Name != "web" || record.UUID == "" || !strings.Contains(ran.out, record.UUID) || len(record.Devices) == 0 {
		t.Errorf("the record of the domain: %+v", hardware)
	}
	_, taken := write(t, plain, got.out)
	again := call(t, "", "render", "-f", taken)
	if want := strings.Replace(ran.out, "shop_elsewhere", "shop_web", 1); normal(again.out) != normal(want) || again.err != nil {
		t.Errorf("it boots as\n%s\nand ran as\n%s\n%v %s", again.out, want, again.err, again.errOut)
	}
}

// normal is a domain without the paths of its files, which have the name of the guest.
func normal(xml string) string { return strings.ReplaceAll(xml, "/elsewhere/", "/web/") }

func TestCaptureRefuses(t *testing.T) {
	t.Parallel()
	_, file := write(t, plain)
	ran := call(t, "", "render", "-f", file)
	domain := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(domain, []byte(ran.out), 0o600); err != nil {
		t.Fatal(err)
	}
	_, other := write(t, strings.Replace(plain, "guest: 1Gi", "guest: 2Gi", 1))
	got := call(t, "", "capture", "-f", other, "--domain", domain)
	if cmdutil.ExitStatus(got.err) != 1 || got.out != "" || !strings.Contains(got.errOut, "spec.domain.memory") {
		t.Errorf("another memory than runs: %v\n%s%s", got.err, got.out, got.errOut)
	}
	for why, args := range map[string][]string{
		"no domain":       {"capture", "-f", file},
		"no such file":    {"capture", "-f", file, "--domain", domain + ".none"},
		"no domain's XML": {"capture", "-f", file, "--domain", file},
	} {
		if got := call(t, "", args...); cmdutil.ExitStatus(got.err) != 2 || got.out != "" {
			t.Errorf("%s: want exit status 2, got %v\n%s", why, got.err, got.out)
		}
	}
}

// TestCaptureBesideKubeVirt: places and machine alone, also of a domain that differs from the spec.
func TestCaptureBesideKubeVirt(t *testing.T) {
	t.Parallel()
	const ran = "<domain><os><type machine='pc-q35-7.2'>hvm</type></os><devices><disk><alias name='ua-plugged'/><target dev='vdb' bus='virtio'/>" +
		"<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></disk>" +
		"<controller type='pci' index='1' model='pcie-root-port'><address type='pci' bus='0x00' slot='0x02' function='0x0'/></controller></devices></domain>"
	_, file := write(t, plain)
	got := call(t, ran, "capture", "-f", file, "--domain", "-", "--kubevirt")
	var hardware v1alpha1.GuestHardware
	if err := yaml.UnmarshalStrict([]byte(got.out), &hardware); err != nil || got.err != nil {
		t.Fatalf("%v %v\n%s%s", err, got.err, got.out, got.errOut)
	}
	if r := hardware.Spec.Hardware; hardware.Name != "web" || r.Machine != "pc-q35-7.2" || r.Devices["disk.plugged"].PCI != "0000:01:00.0" || r.UUID != "" {
		t.Errorf("%+v", hardware.Spec.Hardware)
	}
	if got := call(t, strings.Replace(ran, "0x01", "0xff", 1), "capture", "-f", file, "--domain", "-", "--kubevirt"); got.err == nil || got.out != "" {
		t.Errorf("a place that no guest has: %s", got.out)
	}
}
