package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func frontendProfile(t *testing.T, name, spec string) v1alpha1.FrontendProfile {
	t.Helper()
	profile := v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &profile.Spec); err != nil {
		t.Fatal(err)
	}
	return profile
}

func TestFrontendInForce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, names, want string }{
		{"no profile", "", ""},
		{"numbers count, not texts", "v9 v10 v2", "v10"},
		{"the order of a list does not", "v2 v10 v9", "v10"},
		{"what is no version, also of an API server without the rule", "v2 latest v03 v0 v-1 v1234567890 V9 v99.9", "v2"},
		{"a version with a field that cannot be used", "v2 v3-invalid", "v2"},
	} {
		var all []v1alpha1.FrontendProfile
		for name := range strings.FieldsSeq(test.names) {
			name, invalid := strings.CutSuffix(name, "-invalid")
			profile := frontendProfile(t, name, "{}")
			if invalid {
				profile.Spec.FreePorts = new(int32(129))
			}
			all = append(all, profile)
		}
		got := ""
		if profile := config.FrontendInForce(all); profile != nil {
			got = profile.Name
		}
		if got != test.want {
			t.Errorf("%s: '%s' is in force, want '%s'", test.why, got, test.want)
		}
	}
}

// TestWithoutFrontendProfiles: the pinned configuration of a cluster without profiles has the digest that it had before there were any.
func TestWithoutFrontendProfiles(t *testing.T) {
	t.Parallel()
	cluster := config.Default()
	none := cluster.WithFrontendProfiles(nil)
	if diff := cmp.Diff(cluster.Frontend, none.FrontendDefaults()); diff != "" {
		t.Errorf("(-without profiles +with none):\n%s", diff)
	}
	raw, err := json.Marshal(none.Defaults)
	if err != nil || strings.Contains(string(raw), "frontend") {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestFrontendIsPinnedWhole: a VM that is pinned keeps its values, whatever KubeVirt's smbios becomes.
func TestFrontendIsPinnedWhole(t *testing.T) {
	t.Parallel()
	configured := func(s v1.SMBiosConfiguration) config.Cluster {
		cluster, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{SMBIOSConfig: &s})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return cluster
	}
	const few = "{smbios: {product: P}, video: {amd64: virtio}}"
	pinned := configured(v1.SMBiosConfiguration{Manufacturer: "Acme", Product: "Q", Sku: strings.Repeat("long", 20)}).
		WithFrontendProfiles([]v1alpha1.FrontendProfile{frontendProfile(t, "v7", few)}).Defaults
	later := configured(v1.SMBiosConfiguration{Manufacturer: "Other", Version: "9", Sku: "S", Family: "F"})
	later.Defaults = pinned
	want := config.FrontendDefaults{
		Version:   "v7",
		SMBIOS:    config.SMBIOS{Manufacturer: "Acme", Product: "P", Family: "KubeVirt"},
		BIOS:      ownBIOS,
		FreePorts: 8, EFIVideo: "bochs", GenerationID: true, USBModel: "qemu-xhci",
		Video: map[string]string{"amd64": "virtio", "arm64": "virtio", "s390x": "virtio"},
	}
	if diff := cmp.Diff(want, later.FrontendDefaults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if later.Frontend.Video["amd64"] != "vga" {
		t.Error("the defaults of all other VMs changed with the defaults of one VM")
	}
	snapshot, err := config.Snapshot(pinned)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	read, err := config.ReadDefaults(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&pinned, read); diff != "" {
		t.Errorf("(-pinned +read):\n%s", diff)
	}
}

const everyValue = "{smbios: {manufacturer: A, product: B, version: C, sku: D, family: E}, video: {amd64: cirrus, amd64EFI: vga, arm64: ramfb}, " +
	"freePorts: 0, usb: {model: nec-xhci}, balloon: {deflateOnOOM: true}, generationID: false}"

func TestFrontendProfileSetsEverything(t *testing.T) {
	t.Parallel()
	got := config.Default().WithFrontendProfiles([]v1alpha1.FrontendProfile{frontendProfile(t, "v1", everyValue)}).FrontendDefaults()
	want := config.FrontendDefaults{
		Version: "v1", SMBIOS: config.SMBIOS{Manufacturer: "A", Product: "B", Family: "E", Version: "C", SKU: "D"}, BIOS: ownBIOS,
		EFIVideo: "vga", Video: map[string]string{"amd64": "cirrus", "arm64": "ramfb", "s390x": "virtio"}, USBModel: "nec-xhci", DeflateOnOOM: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForgedFrontend: a revision that no Kiln has written, but whose digest is right.
func TestForgedFrontend(t *testing.T) {
	t.Parallel()
	for _, frontend := range []string{
		`{"version":"v1","smbios":{"manufacturer":"a\u0000b"}}`, `{"version":"v1","freePorts":1000000000}`, `{"version":"v1","freePorts":-1}`,
		`{"version":"v1","video":{"amd64":"qxl"}}`, `{"version":"v1","video":{"arm64":"vga"}}`, `{"version":"v1","usb":{"model":"piix3-uhci"}}`,
		`{"version":"2"}`, `{}`, `{"version":"../v1"}`, `{"version":"v1\n"}`, `{"version":"v1","smbios":{"sku":"é"}}`, `{"version":"v1","freePorts":1e30}`,
	} {
		_, err := config.ReadDefaults([]byte(`{"apiVersion":"kilnvm.io/v1alpha1","kind":"ClusterConfiguration","spec":{"frontend":` + frontend + `}}`))
		if err == nil {
			t.Errorf("%s is read", frontend)
		}
	}
}
