package pods

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	launcherimage "github.com/kilnvm/kiln/manifests/images/launcher"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/imports"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/nightly"
)

// TestImportedGuest: a guest that ran on plain libvirt boots the same disk in a pod with the same QEMU, and sees the same hardware in every byte: configuration
// space of each PCI function, ACPI tables, DMI, CPUID, network card and disks.
func TestImportedGuest(t *testing.T) {
	nightly.Only(t) // two boots each
	for namespace, words := range map[string][]string{"imported": nil, "imported-efi": imports.WithEFIAndTPM} {
		t.Run(namespace, func(t *testing.T) { checkImportedGuest(t, namespace, words) })
	}
}

// checkImportedGuest boots a machine with these words of imports.Usual, imports it, and boots it in a pod.
func checkImportedGuest(t *testing.T, namespace string, words []string) {
	n := newTenant(t, namespace)
	n.importImage(earlierImage, launcherimage.Earlier) // plain libvirt has this QEMU
	if words != nil {
		n.stateVolume("usual")
	}
	n.fileClaim("root")
	n.fileClaim("data")
	image := func(claim string) string { return filepath.Join(shared.Dir, n.namespace+"-"+claim, "disk.img") }
	built, err := guest.BuildDisk(t.TempDir())
	if err == nil {
		err = os.Rename(built, image("root"))
	}
	if err == nil {
		err = os.WriteFile(image("data"), make([]byte, 1<<20), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, log := libvirt.Start(t), filepath.Join(t.TempDir(), "serial.log")
	machine := imports.Usual(image("root"), image("data"), log, words...)
	defined, err := d.Define(strings.ReplaceAll(machine, "NVRAM", filepath.Join(t.TempDir(), "nvram.fd")))
	if err != nil {
		t.Fatal(err)
	}
	before, err := imports.BootOnce(t.Context(), d, "usual", log, 1)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := imported.Parse([]byte(defined))
	if err != nil {
		t.Fatal(err)
	}
	options := domainimport.Options{}
	options.Namespace, options.Claims = n.namespace, map[string]string{"vda": "root", "sda": "data"}
	made, err := domainimport.Make(t.Context(), &workbench.Bench{Runtime: "pod"}, doc, options)
	if err != nil || len(made.Claims) > 0 {
		t.Fatal(err, made)
	}
	current := n.launcherImage()
	n.setLauncherImage(earlierImage)
	t.Cleanup(func() { n.setLauncherImage(current) })
	for _, object := range []any{made.Hardware, made.VM} {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		n.apply(string(text))
	}
	n.kubectl("patch", "vm", "usual", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`)
	seen, record, version := n.boot("usual")
	if diff := cmp.Diff(strings.Split(before.Text(), "\n"), strings.Split(seen, "\n")); diff != "" {
		t.Errorf("in the pod, with %s, the guest sees other hardware (-libvirt +pod):\n%s", version, diff)
	}
	if diff := cmp.Diff(made.Hardware.Spec.Hardware.Devices, record.Spec.Hardware.Devices); diff != "" {
		t.Errorf("the first boot changes the record (-imported +booted):\n%s", diff)
	}
	t.Logf("the guest sees %d facts of hardware, byte for byte the same in a pod as on libvirt", strings.Count(seen, "\n"))
}
