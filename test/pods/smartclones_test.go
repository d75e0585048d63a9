package pods

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
)

const (
	// goldenDisk is a claim for the boot disk of test/guest, and goldenSource a DataSource that leads to it, for a namespace of its own or another one.
	goldenDisk = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: image}
spec: {accessModes: [ReadWriteOnce], storageClassName: copies, volumeMode: Block, resources: {requests: {storage: 320Mi}}}
`
	goldenSource = `
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataSource
metadata: {name: latest}
spec: {source: {pvc: {namespace: golden, name: image}}}
`
	cloneOfVM = `
apiVersion: clone.kubevirt.io/v1beta1
kind: VirtualMachineClone
metadata: {name: copy}
spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: copy}}
`
	// ownVolume is a DataVolume that a user makes without Kiln, and mayMakeVolumes the right to make DataVolumes.
	ownVolume = `
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: own}
spec: {source: {pvc: {namespace: golden, name: image}}, storage: {}}
`
	mayMakeVolumes = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: volumes}
rules: [{apiGroups: [cdi.kubevirt.io], resources: [datavolumes], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: volumes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: volumes}
subjects: [{kind: ServiceAccount, name: default}]
`
	// refusedClone is the reason of a VM, and of its event, whose ServiceAccount may not clone.
	refusedClone = "UnauthorizedDataVolumeCreate"
)

var volumeKind = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}

// goldenTest is a tenant whose VMs clone a claim of the namespace golden.
type goldenTest struct {
	*tenant
	golden *tenant
	disks  *storage
	cdi    *importer
	tool   tool
}

// TestSmartClones: with CDI's own controller and webhook, a VM of 'kubectl kiln create vm' boots from a clone of a claim in another namespace, which no pod has
// copied, if its ServiceAccount may clone there. Otherwise, and after the right was revoked, nothing is copied for a new VM, an edited one, a restored one, or
// a clone of one.
func TestSmartClones(t *testing.T) {
	nightly.Only(t)
	node.Require(t)
	disks := startStorage(t)
	g := &goldenTest{disks: disks, cdi: startImporter(t), golden: newTenant(t, "golden"), tenant: newTenant(t, "shop"), tool: buildTool(t)}
	disks.keepOffOthers()
	g.golden.apply(goldenDisk)
	g.golden.kubectl("wait", "pvc/image", "--for=jsonpath={.status.phase}=Bound", "--timeout=120s")
	disks.fill("golden", "image", filepath.Join(installed.Dir, "disk.img"))
	pods := g.golden.record(podKind, "metadata", "name")

	g.refusesOwn()
	g.createVM("web")
	g.wantRefusal("web", "ServiceAccount 'shop/default' may not clone PersistentVolumeClaim 'golden/image'")
	g.wantEvent("web")
	g.wantNothing()

	statuses, phases := g.record(vmKind, "status", "printableStatus"), g.record(volumeKind, "status", "phase")
	g.grant()
	g.phase("web", "Running")
	g.wantClone("web", "snapshot")
	if seen := phases.values(); slices.Contains(seen, "CloneInProgress") {
		t.Errorf("a pod has copied: the phases of the DataVolume are %s", seen)
	}
	g.wantBoot("web", "of the image")
	g.wantMarks(map[string]string{"golden/image": "of the image", "shop/" + g.volumeOf("web"): "web"})
	g.eventually("STATUS is Running", func() (string, bool) {
		out := g.kubectl("get", "vm", "web", "-o", "jsonpath={.status.printableStatus}")
		return out, out == "Running"
	})
	if seen := statuses.values(); !slices.Contains(seen, "Provisioning") {
		t.Errorf("STATUS was never Provisioning: %s", seen)
	}
	t.Logf("STATUS was %q, the phase of the DataVolume %q", statuses.values(), phases.values())
	g.eventually("only the claim and its clone are left", func() (string, bool) {
		items := g.disks.items()
		return fmt.Sprint(items), len(items) == 2
	})

	g.golden.kubectl("delete", "rolebinding", "cloned")
	g.refusesEdits()
	g.copiesOwn()

	g.cdi.setStrategy("copies", "csi-clone")
	g.grant()
	g.phase("second", "Running")
	g.wantClone("second", "csi-clone")
	g.wantBoot("second", "of the image")
	volume := g.volumeOf("second")
	g.kubectl("delete", "vm", "second", "--timeout=300s")
	g.gone("dv/" + volume)
	g.gone("pvc/" + volume)
	if seen := pods.values(); len(seen) > 0 {
		t.Errorf("pods have copied in namespace 'golden': %s", seen)
	}
	g.bindsLate()
}

// createVM makes a VM with one disk. Its guest writes the name of the VM to the disk.
func (g *goldenTest) createVM(name string) {
	g.Helper()
	if out := g.runCreate(name, "--apply"); !strings.Contains(out, "VirtualMachine/"+name+" serverside-applied") {
		g.Errorf("kubectl kiln create vm --apply says '%s'", out)
	}
}

// runCreate runs 'kubectl kiln create vm'.
func (g *goldenTest) runCreate(name string, more ...string) string {
	g.Helper()
	out, err := g.tool.run(g.Context(), g.namespace, append([]string{"create", "vm", "--name", name, "--memory", "256Mi",
		"--termination-grace-period", "60", "--volume-import=type:pvc,src:golden/image",
		"--cloud-init-user-data", base64.StdEncoding.EncodeToString([]byte("kiln.mark=" + name))}, more...)...)
	if err != nil {
		g.Fatal(err)
	}
	return string(out)
}

// volumeOf returns the name of the DataVolume of a VM, which is the name of its claim.
func (g *goldenTest) volumeOf(vm string) string {
	g.Helper()
	return g.kubectl("get", "vm", vm, "-o", "jsonpath={.spec.dataVolumeTemplates[0].metadata.name}")
}

// grant lets the account of the VMs clone the claims of namespace golden.
func (g *goldenTest) grant() {
	g.Helper()
	if _, err := shared.Kubectl(g.Context(), "--namespace", "golden", "get", "role", "cloned"); err != nil {
		g.golden.kubectl("create", "role", "cloned", "--verb=create", "--resource=datavolumes.cdi.kubevirt.io/source")
	}
	g.golden.kubectl("create", "rolebinding", "cloned", "--role=cloned", "--serviceaccount=shop:default")
}

// refusesOwn checks that CDI's webhook is in force: it refuses the DataVolume of the tenant's account.
func (g *goldenTest) refusesOwn() {
	g.Helper()
	g.apply(mayMakeVolumes)
	file := filepath.Join(g.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(ownVolume), 0o600); err != nil {
		g.Fatal(err)
	}
	out, err := shared.Kubectl(g.Context(), "--namespace", g.namespace, "--as=system:serviceaccount:shop:default", "create", "-f", file)
	if err == nil || !strings.Contains(out, "insufficient permissions in clone source namespace golden") {
		g.Errorf("CDI's webhook answers the tenant: %v %s", err, out)
	}
}

// wantRefusal waits until condition Failure of a VM says why nothing is cloned.
func (g *goldenTest) wantRefusal(vm, message string) {
	g.Helper()
	g.eventually("VM "+vm+" says why nothing is cloned", func() (string, bool) {
		out := g.kubectl("get", "vm", vm, "-o", `jsonpath={.status.printableStatus}: {range .status.conditions[?(@.type=="Failure")]}{.reason}: {.message}{end}`)
		return out, strings.Contains(out, ": "+refusedClone+": ") && strings.Contains(out, message)
	})
}

// wantEvent waits for the event of a VM that may not clone.
func (g *goldenTest) wantEvent(vm string) {
	g.Helper()
	g.eventually("VM "+vm+" has an event "+refusedClone, func() (string, bool) {
		out := g.kubectl("get", "events", "--field-selector=involvedObject.kind=VirtualMachine,involvedObject.name="+vm+",reason="+refusedClone, "-o",
			"jsonpath={.items[*].type}")
		return out, strings.HasPrefix(out, "Warning")
	})
}

// wantNothing checks that nothing has been copied: neither namespace has an object of a copy, and the driver has only the golden claim.
func (g *goldenTest) wantNothing() {
	g.Helper()
	if made := g.kubectl("get", "dv,pvc,volumesnapshots", "-o", "name"); made != "" {
		g.Errorf("without the right there are %s", made)
	}
	if made := g.golden.kubectl("get", "dv,pvc,volumesnapshots,volumeclonesources,pods", "-o", "name"); made != "persistentvolumeclaim/image\n" {
		g.Errorf("in namespace 'golden' there are %s", made)
	}
	if items := g.disks.items(); len(items) != 1 {
		g.Errorf("the driver has %s", items)
	}
}

// wantClone checks how CDI has cloned, and that its webhook has signed the clone.
func (g *goldenTest) wantClone(vm, strategy string) {
	g.Helper()
	const columns = `jsonpath={.status.phase} {.metadata.annotations.cdi\.kubevirt\.io/cloneType} {.spec.source.pvc} ` +
		`{.metadata.annotations.cdi\.kubevirt\.io/storage\.clone\.token}`
	want := "Succeeded " + strategy + ` {"name":"image","namespace":"golden"} `
	if out := g.kubectl("get", "dv", g.volumeOf(vm), "-o", columns); !strings.HasPrefix(out, want) || out == want {
		g.Errorf("the DataVolume of VM %s is '%s', want a signed clone by %s", vm, out, strategy)
	}
}

// wantBoot checks that a guest boots from a disk with a mark, which is its only one beside the seed, and waits until the name of its VM is the mark.
func (g *goldenTest) wantBoot(vm, mark string) {
	g.Helper()
	log := strings.ReplaceAll(g.console(vm, "KILN-MARKED "+vm), "\r", "")
	// Linux gives the names sda and sdb to the disk and the seed in any order.
	if want := " 0 " + mark + "\nKILN-MARKED " + vm; !strings.Contains(log, want) {
		g.Errorf("the console of VM %s does not say %q:\n%s", vm, want, log)
	}
}

// wantMarks checks the marks of claims, which are named with their namespaces.
func (g *goldenTest) wantMarks(want map[string]string) {
	g.Helper()
	for name, mark := range want {
		namespace, claim, _ := strings.Cut(name, "/")
		if got := g.disks.mark(namespace, claim); got != mark {
			g.Errorf("on claim %s is '%s', want '%s'", name, got, mark)
		}
	}
}

// fill writes a raw disk to the volume of a claim that no pod uses.
func (s *storage) fill(namespace, claim, disk string) {
	s.Helper()
	if out, err := exec.CommandContext(s.Context(), "cp", "--sparse=always", disk, s.diskOf(namespace, claim)).CombinedOutput(); err != nil {
		s.Fatalf("cp: %v: %s", err, out)
	}
}

// refusesEdits edits the templates of a second VM, and of the VM that runs: no source in namespace golden is cloned.
func (g *goldenTest) refusesEdits() {
	g.Helper()
	before := g.disks.items()
	g.createVM("second")
	g.wantRefusal("second", "may not clone PersistentVolumeClaim 'golden/image'")
	g.golden.apply(goldenSource)
	g.apply(goldenSource)
	name := g.volumeOf("second")
	for _, edit := range []struct{ metadata, source, message string }{
		{"", `"source": {"pvc": {"namespace": "golden", "name": "other"}}`, "may not clone PersistentVolumeClaim 'golden/other'"},
		{"", `"source": {"snapshot": {"namespace": "golden", "name": "image"}}`, "may not clone VolumeSnapshot 'golden/image'"},
		{"", `"sourceRef": {"kind": "DataSource", "namespace": "golden", "name": "latest"}`, "may not clone what DataSource 'golden/latest' leads to"},
		{"", `"sourceRef": {"kind": "DataSource", "name": "latest"}`, "may not clone PersistentVolumeClaim 'golden/image'"},
		{`, "annotations": {"cdi.kubevirt.io/storage.prePopulated": "` + name + `", "cdi.kubevirt.io/storage.checkStaticVolume": ""}`,
			`"source": {"pvc": {"namespace": "golden", "name": "first"}}`, "may not clone PersistentVolumeClaim 'golden/first'"},
		{"", `"source": {"pvc": {"namespace": "golden", "name": "image"}}`, "may not clone PersistentVolumeClaim 'golden/image'"},
	} {
		g.kubectl("patch", "vm", "second", "--type=merge", "-p", `{"spec": {"dataVolumeTemplates": [{"metadata": {"name": "`+name+`"`+edit.metadata+`},
			"spec": {"storage": {}, `+edit.source+`}}]}}`)
		g.wantRefusal("second", edit.message)
	}
	// A template more on the VM that runs.
	g.kubectl("patch", "vm", "web", "--type=json", "-p", `[{"op": "add", "path": "/spec/dataVolumeTemplates/-", "value": {"metadata": {"name": "more"},
		"spec": {"storage": {}, "source": {"pvc": {"namespace": "golden", "name": "image"}}}}},
		{"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "more", "dataVolume": {"name": "more"}}}]`)
	g.wantRefusal("web", "DataVolume 'more' is not made")
	g.kubectl("patch", "vm", "web", "--type=json", "-p",
		`[{"op": "remove", "path": "/spec/dataVolumeTemplates/1"}, {"op": "remove", "path": "/spec/template/spec/volumes/2"}]`)
	if made := g.kubectl("get", "dv", "-o", "name"); made != "datavolume.cdi.kubevirt.io/"+g.volumeOf("web")+"\n" {
		g.Errorf("after the right was revoked there are %s", made)
	}
	if after := g.disks.items(); !slices.Equal(after, before) {
		g.Errorf("the driver had %s, and has %s", before, after)
	}
}

// bindsLate clones into a claim that is bound when a pod is scheduled: the pod of the guest waits for the clone. A pod of CDI has the volume provisioned.
func (g *goldenTest) bindsLate() {
	g.Helper()
	g.cdi.setStrategy(stateClass, "snapshot")
	phases := g.record(volumeKind, "status", "phase")
	g.apply(strings.Replace(g.runCreate("late"), "storage: {}", "storage: {storageClassName: "+stateClass+"}", 1))
	g.wantBoot("late", "of the image")
	g.wantClone("late", "snapshot")
	if seen := phases.values(); !slices.Contains(seen, "PendingPopulation") {
		g.Errorf("the claim was not bound late: the phases of the DataVolume are %s", seen)
	}
}

// copiesOwn clones the VM that runs, and restores it: both have the content of its own disk, and no DataVolume.
func (g *goldenTest) copiesOwn() {
	g.Helper()
	volume := g.volumeOf("web")
	g.apply(cloneOfVM)
	g.ended("vmclone/copy", "phase", "Succeeded")
	g.apply(fmt.Sprintf(momentOf, "web"))
	g.kubectl("wait", "vmsnapshot/moment", "--for=condition=Ready", "--timeout=300s")
	g.halted("web")
	g.apply(fmt.Sprintf(backToMoment, "web"))
	g.ended("vmrestore/back", "complete", "true")
	g.gone("dv/" + volume)
	for _, vm := range []string{"copy", "web"} {
		const columns = "jsonpath={.spec.dataVolumeTemplates} {.spec.template.spec.volumes[0].persistentVolumeClaim.claimName}"
		templates, claim, _ := strings.Cut(g.kubectl("get", "vm", vm, "-o", columns), " ")
		if templates != "" || claim == "" {
			g.Errorf("VM %s has the templates '%s' and the claim '%s'", vm, templates, claim)
			continue
		}
		g.wantMarks(map[string]string{"shop/" + claim: "web"})
	}
	if made := g.kubectl("get", "dv", "-o", "name"); made != "" {
		g.Errorf("a clone and a restore have left %s", made)
	}
	g.kubectl("patch", "vm", "web", "--type=merge", "-p", `{"spec": {"runStrategy": "Always"}}`)
	g.wantBoot("web", "web")
}
