package manifests_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
)

// templatedVM is a VM with an explicit template, because no webhook runs in this test. Its disk is a clone of a claim in namespace 'golden'.
const templatedVM = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a", "namespace": "team"}, "spec": {
	"runStrategy": "Always",
	"dataVolumeTemplates": [{"metadata": {"name": "root", "labels": {"tier": "web"}}, "spec": {
		"source": {"pvc": {"namespace": "golden", "name": "image"}}, "storage": {"resources": {"requests": {"storage": "1Gi"}}}}}],
	"template": {"spec": {
		"architecture": "amd64", "networks": [{"name": "default", "pod": {}}], "terminationGracePeriodSeconds": 5,
		"volumes": [{"name": "root", "dataVolume": {"name": "root"}}], "domain": {
			"cpu": {"cores": 1, "sockets": 1, "threads": 1, "model": "host-model"}, "memory": {"guest": "64Mi"}, "machine": {"type": "q35"},
			"features": {"acpi": {"enabled": true}}, "firmware": {"uuid": "0e2ff28d-6b9f-4b8f-8f3e-8d3a3f6c9a11"},
			"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}],
				"interfaces": [{"name": "default", "model": "virtio", "masquerade": {}}]}}}}}}`

// filledClaim is the claim that CDI makes of a DataVolume whose UID takes the place of UID.
const filledClaim = `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "root", "namespace": "team", "ownerReferences": [
	{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "root", "uid": "UID", "controller": true, "blockOwnerDeletion": true}]},
	"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`

// TestDataVolumes: with the rights of the manifests, CDI's own definitions and the API server's RBAC, a VM gets a clone from another namespace only while its
// ServiceAccount has the right. CDI's controller and webhook do not run: the test stands in for the controller, and makes the claim and sets the phase.
func TestDataVolumes(t *testing.T) {
	p := startPlane(t)
	p.kubectl(t, "", "apply", "--server-side", "-k", "overlays/rotation")
	p.kubectl(t, "", "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--all")
	p.established(t)
	p.kubectl(t, "", "create", "namespace", "team")
	p.kubectl(t, "", "create", "namespace", "golden")
	p.kubectl(t, `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "team"}}`, "apply", "-f", "-")
	dir := t.TempDir()
	if err := cluster.Build(t.Context(), "..", dir, "controller"); err != nil {
		t.Fatal(err)
	}
	start := func(t *testing.T) {
		t.Helper()
		startProcess(t, filepath.Join(dir, "controller"), "--kubeconfig", p.Users[controllerAccount], "--health-probe-bind-address", "0",
			"--namespace", "kiln-system", "--launcher-image", "registry.example.org/kiln-launcher:v1")
	}
	const failure = `{.status.conditions[?(@.type=="Failure")].message}`
	refused := func(when string) {
		t.Helper()
		eventually(t, when+", the VM says whose right is missing", func() bool {
			return strings.Contains(p.jsonPath(t, "vm/a", failure), "ServiceAccount 'team/default' may not clone PersistentVolumeClaim 'golden/image'")
		})
		if made := p.jsonPath(t, "datavolume/root", "{.metadata.name}"); made != "" {
			t.Errorf("%s, a DataVolume is made", when)
		}
	}
	p.kubectl(t, templatedVM, "create", "-f", "-")
	t.Run("CDI is installed later", func(t *testing.T) {
		start(t)
		eventually(t, "the VM says that CDI is missing", func() bool {
			return strings.Contains(p.jsonPath(t, "vm/a", failure), "install Containerized Data Importer")
		})
		p.kubectl(t, "", "apply", "--server-side", "-f", "testdata/cdi")
		p.established(t)
		refused("without a restart of the controller")
	})
	start(t)
	refused("without the right")
	eventually(t, "an event reports the refusal", func() bool {
		return p.kubectl(t, "", "get", "events", "-n", "team", "--field-selector", "reason=UnauthorizedDataVolumeCreate", "-o", "name") != ""
	})

	p.kubectl(t, "", "create", "role", "cloned", "-n", "golden", "--verb=create", "--resource=datavolumes.cdi.kubevirt.io/source")
	grant := func() {
		t.Helper()
		p.kubectl(t, "", "create", "rolebinding", "cloned", "-n", "golden", "--role=cloned", "--serviceaccount=team:default")
		eventually(t, "with the right, the DataVolume is made", func() bool { return p.jsonPath(t, "datavolume/root", "{.metadata.name}") != "" })
	}
	grant()
	const columns = `{.metadata.labels.tier} {.metadata.ownerReferences[0].kind} {.metadata.ownerReferences[0].name} {.spec.source.pvc.namespace}`
	if got := p.jsonPath(t, "datavolume/root", columns); got != "web VirtualMachine a golden" {
		t.Errorf("the DataVolume is %s", got)
	}
	status := func(want string) {
		t.Helper()
		eventually(t, "the VM is "+want, func() bool { return p.jsonPath(t, "vm/a", "{.status.printableStatus}") == want })
	}
	status("Provisioning")
	setPhase := func(phase string) {
		t.Helper()
		p.kubectl(t, "", "patch", "datavolume", "root", "-n", "team", "--subresource=status", "--type=merge", "-p", `{"status": {"phase": "`+phase+`"}}`)
	}
	setPhase("Failed")
	status("DataVolumeError")
	setPhase("CloneInProgress")
	status("Provisioning")
	if started := p.jsonPath(t, "vmi/a", "{.metadata.name}"); started != "" {
		t.Error("a guest starts before its disk is filled")
	}
	p.kubectl(t, strings.Replace(filledClaim, "UID", p.jsonPath(t, "datavolume/root", "{.metadata.uid}"), 1), "create", "-f", "-")
	setPhase("Succeeded")
	eventually(t, "the guest has a pod with its claim", func() bool {
		return strings.Contains(p.jsonPath(t, "pod/guest-a", "{.spec.volumes[*].persistentVolumeClaim.claimName}"), "root")
	})

	p.kubectl(t, "", "patch", "vm", "a", "-n", "team", "--type=merge", "-p", `{"spec": {"runStrategy": "Halted"}}`)
	p.kubectl(t, "", "delete", "pod", "guest-a", "-n", "team", "--force", "--ignore-not-found") // there is no kubelet to confirm it
	p.kubectl(t, "", "wait", "--for=delete", "vmi/a", "-n", "team", "--timeout=60s")
	p.kubectl(t, "", "delete", "rolebinding", "cloned", "-n", "golden")
	p.kubectl(t, "", "delete", "datavolume", "root", "-n", "team", "--wait=false")
	// Protection of claims has a controller that does not run here.
	p.kubectl(t, "", "patch", "pvc", "root", "-n", "team", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	refused("after the right was revoked")

	grant()
	p.kubectl(t, "", "delete", "vm", "a", "-n", "team", "--wait=false")
	p.kubectl(t, "", "wait", "--for=delete", "datavolume/root", "-n", "team", "--timeout=60s")
}
