package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/samples"
)

// preferred is a VM with an instancetype and a preference of the published catalog. It boots the test guest from a disk whose bus the preference chooses.
func preferred(name, instancetype, preference string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s}
spec:
  runStrategy: Always
  instancetype: {name: %s}
  preference: {name: %s}
  template:
    spec:
      terminationGracePeriodSeconds: 0
      domain: {devices: {disks: [{name: image, bootOrder: 1, disk: {}}], interfaces: [{name: default, masquerade: {}}]}}
      networks: [{name: default, pod: {}}]
      volumes: [{name: image, containerDisk: {image: '%s'}}]
`, name, instancetype, preference, diskImage)
}

// preferencesAtATime is how many guests of TestPublishedPreferences run at a time.
const preferencesAtATime = 2

// TestPublishedPreferences: with each preference of KubeVirt's published catalog, a guest boots in a pod, except the preferences that docs/reference/support.md
// lists, which are refused at create, and the preferences of other architectures, for which no node is here. Windows' preferences bring Secure Boot, a
// persistent TPM, Hyper-V's enlightenments, SATA disks and e1000e. The guest that boots is Linux all the same.
func TestPublishedPreferences(t *testing.T) {
	nightly.Only(t)
	catalog := samples.Catalog(t)
	n := newTenant(t, "preferences")
	startStorage(t).keepOffOthers()
	n.installCatalog(catalog)
	var refused, elsewhere, boots []string
	for _, p := range readPreferences(t, filepath.Join(catalog, "cluster-preferences.yaml")) {
		vm := strings.ReplaceAll(p.Name, ".", "-")
		instancetype := "u1.medium"
		if p.Spec.Requirements != nil && p.Spec.Requirements.CPU != nil {
			switch cpus := p.Spec.Requirements.CPU.Guest; {
			case cpus > 4:
				instancetype = "u1.2xlarge"
			case cpus > 2:
				instancetype = "u1.xlarge"
			case cpus > 1:
				instancetype = "u1.large"
			}
		}
		manifest := preferred(vm, instancetype, p.Name)
		out, err := n.applied(halted(manifest))
		architecture := p.Spec.PreferredArchitecture
		switch {
		case err != nil && strings.Contains(out, "preference '"+p.Name+"'"):
			refused = append(refused, p.Name)
		case err != nil:
			t.Errorf("%s: %s", p.Name, out)
		case architecture != nil && *architecture != "amd64":
			n.eventually(p.Name+" has no node", func() (string, bool) {
				got := n.placeable(vm)
				return fmt.Sprintf("%+v", got), got.Reason == v1alpha1.ReasonNoNodeMatches
			})
			elsewhere = append(elsewhere, p.Name)
		default:
			boots = append(boots, vm)
		}
	}
	if want := []string{"centos.stream9.dpdk", "rhel.8.dpdk", "rhel.9.dpdk", "rhel.9.realtime"}; !slices.Equal(refused, want) {
		t.Errorf("refused are %q, want %q", refused, want)
	}
	t.Logf("refused: %q, for other architectures: %q, %d preferences boot", refused, elsewhere, len(boots))
	for wave := range slices.Chunk(boots, preferencesAtATime) {
		for _, vm := range wave {
			n.kubectl("patch", "vm", vm, "--type=merge", "--patch", `{"spec":{"runStrategy":"Always"}}`)
		}
		for _, vm := range wave {
			n.phase(vm, "Running")
			n.console(vm, "KILN-REPORT-END")
			n.kubectl("delete", "vm", vm, "--wait=false")
		}
		n.gone("vmi")
	}
}

// installCatalog applies the published catalog for the length of the test.
func (n *tenant) installCatalog(folder string) {
	n.Helper()
	n.Cleanup(func() {
		if out, err := shared.Kubectl(context.WithoutCancel(n.Context()), "delete", "-f", folder, "--ignore-not-found", "--timeout=60s"); err != nil {
			n.Error(err, out)
		}
	})
	n.kubectl("apply", "--server-side", "-f", folder)
}

// readPreferences reads the VirtualMachineClusterPreferences of a file.
func readPreferences(t *testing.T, file string) (all []instancetypev1.VirtualMachineClusterPreference) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var preference instancetypev1.VirtualMachineClusterPreference
		if err := yaml.Unmarshal([]byte(document), &preference); err != nil {
			t.Fatal(err)
		}
		if preference.Name != "" {
			all = append(all, preference)
		}
	}
	return all
}
