package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
)

// ownVersion is the version of Kiln's own values.
var ownVersion = config.Default().Frontend.Version

// fronted is a VM of a machine; a guest without disk reaches its firmware, which is enough.
func fronted(m machine, name, strategy string) string {
	return `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: ` + name + `}, spec: {runStrategy: ` + strategy +
		`, template: {spec: ` + frontedSpec(m) + `}}}`
}

func frontedSpec(m machine) string {
	return `{terminationGracePeriodSeconds: 0, nodeSelector: {machine: ` + m.name + `}, domain: {memory: {guest: 64Mi}, devices: {autoattachPodInterface: false}}}`
}

// frontends is a cluster with FrontendProfiles, and a machine. All of a cluster shares its versions, so this test has its own cluster.
type frontends struct {
	space
	machine
}

// create creates halted VMs, and waits until the controller has pinned them.
func (f frontends) create(names ...string) {
	f.Helper()
	for _, name := range names {
		f.apply(fronted(f.machine, name, "Halted"))
		f.eventually("the VM is pinned to a configuration", func() bool {
			return strings.Contains(f.get("vm", name).GetAnnotations()[pinsAnnotation], `"configuration":"configuration-`)
		})
	}
}

// release creates a version and waits until webhook and controller have it: VM 'before' would be pinned to another configuration.
func (f frontends) release(version int) {
	f.Helper()
	pins := func() string {
		return f.must(f.kubectl("", "annotate", "vm", "before", "--overwrite", "--dry-run=server", pinsAnnotation+"=", "-o",
			"jsonpath={.metadata.annotations}")).stdout
	}
	was := pins()
	f.apply(fmt.Sprintf("{apiVersion: kilnvm.io/v1alpha1, kind: FrontendProfile, metadata: {name: v%d}, "+
		"spec: {smbios: {manufacturer: Acme-%d}, freePorts: %d, generationID: false}}", version, version, version))
	f.eventually("the webhook has the version", func() bool { return pins() != was })
	f.eventually("the condition says that it is in force", func() bool {
		a := f.read("frontendprofiles", fmt.Sprintf("v%d", version), `{.status.conditions[?(@.type=="InForce")].status}`)
		return a.stdout == "True"
	})
}

// has checks what a guest that runs has found: in its record and in libvirt.
func (f frontends) has(name, why, version, manufacturer string) {
	f.Helper()
	if !f.late(func() bool {
		return f.read("vmi", name, "{.status.phase}").stdout == "Running"
	}) {
		f.Fatalf("%s: '%s' does not run: %s", why, name, f.read("vmi", name, "{.status}").stdout)
	}
	record := f.recorded(name)
	if record.Defaults != version || record.SMBIOS["manufacturer"] != manufacturer {
		f.Errorf("%s: '%s' has version '%s' and strings %v, want version '%s' and manufacturer '%s'", why, name, record.Defaults, record.SMBIOS,
			version, manufacturer)
	}
	xml, err := f.ActiveXML(f.space.name + "_" + name)
	if err != nil || !strings.Contains(xml, "<entry name='manufacturer'>"+manufacturer+"</entry>") || strings.Contains(xml, "<genid>") != (version == ownVersion) {
		f.Errorf("%s: libvirt runs '%s' otherwise: %v\n%s", why, name, err, xml)
	}
}

// start starts a halted VM.
func (f frontends) start(names ...string) {
	f.Helper()
	for _, name := range names {
		f.must(f.kubectl("", "patch", "vm", name, "--type=merge", "-p", `{"spec":{"runStrategy":"Always"}}`))
	}
}

// TestFrontendProfiles: a VM boots with the version that was in force when it was created, though it never booted before; new ones get the next;
// a record outlives all versions.
func TestFrontendProfiles(t *testing.T) {
	t.Parallel()
	a := newAlone(t)
	s := newSpaceOn(t, a.Cluster)
	f := frontends{s, s.startMachine()}
	f.create("before")
	f.release(1)
	f.create("first", "moved")
	f.release(2)
	f.create("second")
	f.apply(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: bare}, spec: ` + frontedSpec(f.machine) + `}`)
	if result := f.kiln("explain", "vm/first"); !strings.Contains(result.stdout, `FrontendProfile "v1", of the configuration`) {
		t.Errorf("explain: %s%s", result.stdout, result.stderr)
	}
	if result := f.kiln("render", "vm/second"); !strings.Contains(result.stdout, "Acme-2") {
		t.Errorf("render: %s%s", result.stdout, result.stderr)
	}
	if result := f.must(f.kiln("repin", "vm/moved", "--configuration")); !strings.Contains(result.stdout, "configuration: ") || result.stderr != "" {
		t.Errorf("repin: %s%s", result.stdout, result.stderr)
	}
	f.forged()

	f.start("before", "first", "moved", "second")
	f.has("before", "a VM of before the first version", ownVersion, "KubeVirt")
	f.has("first", "a VM of the first version", "v1", "Acme-1")
	f.has("moved", "a VM that was pinned anew", "v2", "Acme-2")
	f.has("second", "a VM of the second version", "v2", "Acme-2")
	f.has("bare", "a VMI without a VM", "v2", "Acme-2")

	f.must(f.kubectl("", "delete", "frontendprofiles", "--all"))
	f.must(f.kubectl("", "delete", "vmi", "bare", "--timeout=60s")) // for good: the end of a machine waits for VMs alone
	f.restart("first")
	f.has("first", "a restart after all versions have gone", "v1", "Acme-1")
	if result := f.kiln("explain", "vm/first"); !strings.Contains(result.stdout, `FrontendProfile "v1", of the hardware record`) {
		t.Errorf("explain: %s%s", result.stdout, result.stderr)
	}
}

// forged: a tenant sees the versions, and can write neither a version nor what a launcher gets.
func (f frontends) forged() {
	f.Helper()
	f.must(f.kubectl("", "create", "rolebinding", "tenant", "--clusterrole=kiln-edit", "--user=tenant"))
	result := f.kubectl("", "get", "frontendprofiles", "--as=tenant", "--as-group=system:authenticated")
	if result.err != nil || !strings.Contains(result.stdout, "v2") {
		f.Errorf("a tenant does not see the versions: %s%s", result.stdout, result.stderr)
	}
	for _, args := range [][]string{
		{"patch", "frontendprofile", "v2", "--type=merge", "-p", `{"spec":{"freePorts":9}}`},
		{"delete", "frontendprofile", "v2"},
		{"patch", "guesthardware", "bare", "--subresource=status", "--type=merge",
			"-p", `{"status":{"guest":{"frontend":{"version":"v9"}}}}`},
		{"annotate", "vmi", "bare", pinsAnnotation + `={"configuration":"configuration-aaaaaaaaaaaaaaaaaaaaaaaaaa"}`},
	} {
		if result := f.kubectl("", append(args, "--as=tenant")...); result.err == nil {
			f.Errorf("a tenant may %s: %s", strings.Join(args, " "), result.stdout)
		}
	}
	// An administrator of the cluster is refused too, by the schema.
	if result := f.kubectl("", "patch", "frontendprofile", "v2", "--type=merge", "-p", `{"spec":{"freePorts":9}}`); result.err == nil {
		f.Error("a version is changed")
	}
}
