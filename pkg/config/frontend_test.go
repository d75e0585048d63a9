package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// version and what it stands for change together: guests keep the set that they were first started with by its version.
// ownBIOS are Kiln's strings of the BIOS. No FrontendProfile has them.
var ownBIOS = config.BIOS{Vendor: "SeaBIOS", Version: "kiln-1", Date: "04/01/2014"}

func TestFrontendDefaults(t *testing.T) {
	want := config.FrontendDefaults{
		Version:      "3",
		SMBIOS:       config.SMBIOS{Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt"},
		BIOS:         ownBIOS,
		FreePorts:    8,
		EFIVideo:     "bochs",
		GenerationID: true,
		Video:        map[string]string{"amd64": "vga", "arm64": "virtio", "s390x": "virtio"},
	}
	if diff := cmp.Diff(want, config.Default().Frontend); diff != "" {
		t.Errorf("a value that changed needs another version (-want +got):\n%s", diff)
	}
}

func TestSMBIOS(t *testing.T) {
	for _, test := range []struct {
		name, why string
		given     v1.SMBiosConfiguration
		want      config.SMBIOS
	}{
		{name: "all", why: "a product of its own", given: v1.SMBiosConfiguration{Manufacturer: "Acme", Product: "Cloud", Family: "C", Version: "2", Sku: "c-2"},
			want: config.SMBIOS{Manufacturer: "Acme", Product: "Cloud", Family: "C", Version: "2", SKU: "c-2"}},
		{name: "some", why: "what is not said stays KubeVirt's, as KubeVirt lays its configuration over its defaults",
			given: v1.SMBiosConfiguration{Manufacturer: "Acme"},
			want:  config.SMBIOS{Manufacturer: "Acme", Product: "None", Family: "KubeVirt"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{SMBIOSConfig: &test.given})
			if diff := cmp.Diff(test.want, cluster.Frontend.SMBIOS); diff != "" || len(errs) > 0 {
				t.Errorf("%s: %v (-want +got):\n%s", test.why, errs, diff)
			}
		})
	}
}
