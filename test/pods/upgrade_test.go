package pods

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/manifests/images/archive"
	launcherimage "github.com/kilnvm/kiln/manifests/images/launcher"
	sources "github.com/kilnvm/kiln/manifests/images/programs"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/nightly"
)

// earlierImage is a launcher with an earlier QEMU, anotherImage one with the same packages and another version of the launcher.
const (
	earlierImage = "docker.io/library/kiln-launcher:earlier"
	anotherImage = "docker.io/library/kiln-launcher:another"
)

// ofQEMU are facts that each version of QEMU decides anew: the ACPI tables and the objects in them. No machine type keeps them, and no record could.
var ofQEMU = []string{"acpi ", "namespace "}

// processorFamily is the family of a processor in the SMBIOS table, the byte at offset 6 of a structure of type 4. QEMU 7.2 writes 01, 'other', and QEMU 10.0
// writes fe, 'see the second field', which contains 'other' with both. No option of QEMU sets the byte.
var processorFamily = regexp.MustCompile(`^(smbios 4\.[0-9a-f]{4}=[0-9a-f]{12})(01|fe)`)

// withoutQEMU returns the facts of a report that are of the machine, a line each.
func withoutQEMU(report string) (lines []string) {
	for line := range strings.Lines(report) {
		if !slices.ContainsFunc(ofQEMU, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			lines = append(lines, processorFamily.ReplaceAllString(line, "${1}other"))
		}
	}
	return lines
}

// TestSameAfterUpgrade: a guest that first ran with an earlier QEMU has the same hardware when the launcher's image has a later one, by the record and by what
// it sees itself. On a bare machine with the earlier QEMU, it sees the same in every byte.
func TestSameAfterUpgrade(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "upgrade")
	n.importImage(earlierImage, launcherimage.Earlier)
	current := n.launcherImage()
	n.setLauncherImage(earlierImage)
	t.Cleanup(func() { n.setLauncherImage(current) })
	n.apply(machine("same", only("node-1")))
	seen, record, version := n.boot("same")
	n.setLauncherImage(current)
	n.restart("same")
	seenLater, recordLater, versionLater := n.boot("same")
	if version == versionLater {
		t.Fatalf("both images have '%s'", version)
	}
	t.Logf("the guest first ran with %s, as machine %s, and then with %s", version, record.Spec.Hardware.Machine, versionLater)
	if diff := cmp.Diff(withoutQEMU(seen), withoutQEMU(seenLater)); diff != "" {
		t.Errorf("after the upgrade the guest sees other hardware (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(record.Spec.Hardware, recordLater.Spec.Hardware); diff != "" {
		t.Errorf("after the upgrade the record is another one (-before +after):\n%s", diff)
	}
	var vmi v1.VirtualMachineInstance
	n.read("vmi", "same", &vmi)
	n.kubectl("delete", "vm", "same", "--timeout=120s")
	if diff := cmp.Diff(seen, n.onBareMachine(&vmi, recordLater)); diff != "" {
		t.Errorf("on a bare machine the guest sees other hardware (-pod +machine):\n%s", diff)
	}
	t.Logf("the guest sees %d facts: all are the same on a bare machine, and %d after the upgrade", strings.Count(seen, "\n"), len(withoutQEMU(seen)))
}

// TestSameInAnotherImage: a guest that starts again in another launcher's image with the same QEMU sees the same hardware, in every byte.
func TestSameInAnotherImage(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "another")
	n.importImage(anotherImage, launcherimage.Image)
	current := n.launcherImage()
	n.apply(hostModel("same", only("node-1")))
	seen, _, version := n.boot("same")
	record := n.verifiedRecord("same")
	n.setLauncherImage(anotherImage)
	t.Cleanup(func() { n.setLauncherImage(current) })
	n.restart("same")
	seenLater, recordLater, versionLater := n.boot("same")
	if image := n.kubectl("get", "pod", "guest-same", "-o", "jsonpath={.spec.containers[0].image}"); image != anotherImage || version != versionLater {
		t.Fatalf("the pod has image '%s' with '%s', and before '%s' with '%s'", image, versionLater, current, version)
	}
	if diff := cmp.Diff(seen, seenLater); diff != "" {
		t.Errorf("in the other image the guest sees other hardware (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(record.Spec.Hardware, recordLater.Spec.Hardware); diff != "" {
		t.Errorf("in the other image the record is another one (-before +after):\n%s", diff)
	}
}

// imageBuild builds an image of the launcher.
type imageBuild func(context.Context, sources.Sources, sources.Platform, launcherimage.Folders) (archive.Image, error)

// importImage makes an image of the launcher, and lets the shared node have it. The tag of the name is the version of the launcher.
func (n *tenant) importImage(name string, build imageBuild) {
	n.Helper()
	shared.Import(n, n.makeImage(name, build))
}

// makeImage returns the archive of an image of the launcher.
func (n *tenant) makeImage(name string, build imageBuild) (file string) {
	n.Helper()
	root, tag := "../..", name[strings.LastIndex(name, ":")+1:]
	from, err := sources.Describe(n.Context(), root, tag)
	if err != nil {
		n.Fatal(err)
	}
	image, err := build(n.Context(), from, sources.Platform{OS: "linux", Architecture: "amd64"},
		launcherimage.Folders{Work: n.TempDir(), Cache: filepath.Join(root, "bin/images/cache")})
	if err != nil {
		n.Fatal(err)
	}
	file = filepath.Join(n.TempDir(), tag+".tar")
	if err := archive.Write(file, name, image); err != nil {
		n.Fatal(err)
	}
	return file
}

const launcherImageOf = `jsonpath={.spec.template.spec.containers[0].env[?(@.name=="LAUNCHER_IMAGE")].value}`

// launcherImage returns the image of new pods.
func (n *tenant) launcherImage() string {
	n.Helper()
	return n.kubectl("--namespace", "kiln-system", "get", "deployment", "kiln-controller", "-o", launcherImageOf)
}

// setLauncherImage gives new pods an image, as an upgrade of Kiln does.
func (n *tenant) setLauncherImage(image string) {
	n.Helper()
	for _, args := range [][]string{{"set", "env", "deployment/kiln-controller", "LAUNCHER_IMAGE=" + image},
		{"rollout", "status", "deployment/kiln-controller", "--timeout=180s"}} {
		if out, err := shared.Kubectl(context.WithoutCancel(n.Context()), append([]string{"--namespace", "kiln-system"}, args...)...); err != nil {
			n.Fatal(err, out)
		}
	}
}

// boot waits for a guest, and returns what it sees, its record and the version of its QEMU.
func (n *tenant) boot(vmi string) (seen string, record v1alpha1.GuestHardware, version string) {
	n.Helper()
	n.phase(vmi, "Running")
	seen = n.hardware(n.console(vmi, "KILN-REPORT-END"))
	n.read("guesthardware", vmi, &record)
	version, _, _ = strings.Cut(n.kubectl("exec", "guest-"+vmi, "--", "/usr/bin/qemu-system-x86_64", "--version"), "\n")
	return seen, record, version
}

// read reads an object.
func (n *tenant) read(kind, name string, into any) {
	n.Helper()
	if err := json.Unmarshal([]byte(n.kubectl("get", kind, name, "-o", "json")), into); err != nil {
		n.Fatal(err)
	}
}

// onBareMachine boots a VMI and its record under a libvirt of this machine, as 'launcher node' does, and returns what the guest sees.
func (n *tenant) onBareMachine(vmi *v1.VirtualMachineInstance, hardware v1alpha1.GuestHardware) string {
	n.Helper()
	daemon, folder := libvirt.Start(n), n.TempDir()
	volumes := filepath.Join(folder, "volumes")
	n.layImages(filepath.Join(volumes, "containers"))
	root, err := hostresources.OpenRoot(volumes)
	if err != nil {
		n.Fatal(err)
	}
	defer root.Close()
	connection := hypervisor.New(daemon.Socket)
	defer connection.Close()
	host, err := connection.Capabilities(n.Context(), "bare", hypervisor.KVMNever)
	if err != nil {
		n.Fatal(err)
	}
	launcher := &hostresources.BareMachine{Volumes: root, State: filepath.Join(folder, "state"), TPMStates: daemon.TPMStates()}
	bound, errs := launcher.Bind(n.Context(), vmi, host.QEMU)
	if len(errs) > 0 {
		n.Fatal(errs.ToAggregate())
	}
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Frozen: hardware.Spec.Hardware, Host: host, Bindings: bound.Bindings,
		Defaults: config.Default().FrontendDefaults().With(hardware.Status.Guest.Frontend)})
	if len(errs) > 0 {
		n.Fatal(errs.ToAggregate())
	}
	if diff := cmp.Diff(*hardware.Spec.Hardware, rendered.Record); diff != "" {
		n.Errorf("on a bare machine the record is another one (-pod +machine):\n%s", diff)
	}
	owner := hypervisor.Owner{Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: "bare"}
	if err := connection.Start(n.Context(), hypervisor.Guest{Owner: owner, Documents: rendered.Documents}); err != nil {
		n.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(n.Context(), patience)
	defer cancel()
	report, err := guest.WaitReport(ctx, bound.SerialLog, 1)
	if err != nil {
		n.Fatal(err)
	}
	return report.Text()
}

// layImages writes the trees of the guests' images as a launcher of a bare machine reads them.
func (n *tenant) layImages(folder string) {
	n.Helper()
	for image, content := range installed.Images {
		for name, source := range content {
			target := filepath.Join(folder, image, name)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				n.Fatal(err)
			}
			if err := os.Link(source, target); err != nil {
				n.Fatal(err)
			}
		}
	}
}
