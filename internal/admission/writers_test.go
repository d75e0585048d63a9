package admission

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	controller = "system:serviceaccount:machines:kiln-controller"
	launcher   = "system:serviceaccount:machines:kiln-launcher"
	collector  = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// TestWhoMayChangeWhat: users change what their guests want to be, controllers what they are.
func TestWhoMayChangeWhat(t *testing.T) {
	c := newCluster(t)
	guest := func(meta, status string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a, " + meta +
			"}\nspec: {domain: {devices: {}, memory: {guest: 1Gi}}}\nstatus: {" + status + "}"
	}
	owned := "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: v, uid: u, controller: true}]"
	deployed := "ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: v, uid: u}]"
	blocking := "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: v, uid: u, controller: true, blockOwnerDeletion: true}]"
	const deleted = "deletionTimestamp: '2026-01-01T00:00:00Z'"
	const recorded = "annotations: {kilnvm.io/pins: '{}'}"
	vm := func(status string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n" +
			"status: {" + status + "}"
	}
	for _, test := range []struct {
		why, path, user, node string
		before, after         string
		want                  []string
	}{
		{"anybody may label a guest", ValidateVMI, "eve", "", guest("", ""), guest("labels: {a: b}", ""), nil},
		{"a guest's owner is its controller's to set", ValidateVMI, "eve", "", guest("", ""), guest(owned, ""), []string{"metadata.ownerReferences[0]"}},
		{"which it does", ValidateVMI, controller, "", guest("", ""), guest(owned, ""), nil},
		{"other owners are nobody's business", ValidateVMI, "eve", "", guest("", ""), guest(deployed, ""), nil},
		{"nor is it a user's to take away: the VM would start a second guest beside it", ValidateVMI, "eve", "", guest(owned, ""), guest("", ""),
			[]string{"metadata.ownerReferences"}},
		{"the garbage collector does, so that a guest outlives its VM", ValidateVMI, collector, "", guest(owned, ""), guest("", ""), nil},
		{"which runs as one account where controllers share it", ValidateVMI, "system:kube-controller-manager", "", guest(owned, ""), guest("", ""), nil},
		{"but makes nobody an owner", ValidateVMI, collector, "", guest("", ""), guest(owned, ""), []string{"metadata.ownerReferences[0]"}},
		{"other owners come and go", ValidateVMI, "eve", "", guest(deployed, ""), guest("", ""), nil},
		{"the garbage collector unblocks", ValidateVMI, collector, "", guest(blocking, ""), guest(owned, ""), nil},
		{"another owner is a change", ValidateVMI, "eve", "", guest(owned, ""),
			guest("ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: w, uid: x, controller: true}]", ""),
			[]string{"metadata.ownerReferences[0]", "metadata.ownerReferences"}},
		{"one that is being deleted is judged too: what it was made from stays until it has gone", ValidateVMI, "eve", "", guest(deleted, ""),
			guest(deleted+", "+owned, ""), []string{"metadata.ownerReferences[0]"}},
		{"its finalizers are nobody's business", ValidateVMI, "eve", "", guest(deleted+", finalizers: [a/b]", ""), guest(deleted, ""), nil},
		{"pins are a launcher's to write", ValidateVMI, launcher, "n1", guest("", "nodeName: n1"), guest(recorded, "nodeName: n1"), nil},
		{"and a controller's", ValidateVMI, controller, "", guest("", ""), guest(recorded, ""), nil},
		{"users write none", ValidateVMI, "eve", "", guest("", ""), guest(recorded, ""), []string{"metadata.annotations[kilnvm.io/pins]"}},
		{"nor take it away", ValidateVMI, "eve", "", guest(recorded, ""), guest("", ""), []string{"metadata.annotations[kilnvm.io/pins]"}},
		{"nor when the guest is being deleted", ValidateVMI, "eve", "", guest(deleted, ""), guest(deleted+", "+recorded, ""),
			[]string{"metadata.annotations[kilnvm.io/pins]"}},
		{"administrators neither", ValidateVMI, "kubernetes-admin", "", guest("", ""), guest(recorded, ""), []string{"metadata.annotations[kilnvm.io/pins]"}},
		{"all that ties a guest to what it was made from", ValidateVMI, "eve", "", guest("annotations: {kilnvm.io/pins: a}", ""),
			guest("annotations: {kilnvm.io/identity: b, kilnvm.io/generation: c}", ""),
			[]string{"metadata.annotations[kilnvm.io/generation]", "metadata.annotations[kilnvm.io/identity]", "metadata.annotations[kilnvm.io/pins]"}},
		{"other annotations are anybody's", ValidateVMI, "eve", "", guest("", ""), guest("annotations: {kilnvm.io/numa-cells: '2', team: a}", ""), nil},
		{"labels of controllers are theirs", ValidateVMI, "eve", "", guest("", ""), guest("labels: {kubevirt.io/nodeName: node1}", ""),
			[]string{"metadata.labels[kubevirt.io/nodeName]"}},
		{"a launcher keeps to its node", ValidateVMI, launcher, "n1", guest("", "nodeName: n2"), guest("labels: {a: b}", "nodeName: n2"),
			[]string{"status.nodeName"}},
		{"whose guests it may change", ValidateVMI, launcher, "n2", guest("", "nodeName: n2"), guest("labels: {a: b}", "nodeName: n2"), nil},
		{"users write no status", ValidateStatus, "eve", "", guest("", ""), guest("", "phase: Running"), []string{"status"}},
		{"not even of a VM", ValidateStatus, "eve", "", vm(""), vm("ready: true"), []string{"status"}},
		{"nothing changed is nothing written", ValidateStatus, "eve", "", vm("ready: true"), vm("ready: true"), nil},
		{"controllers do", ValidateStatus, controller, "", vm(""), vm("ready: true"), nil},
		{"but legal requests only", ValidateStatus, controller, "", vm(""), vm("volumeRequests: [{}]"), []string{"status.volumeRequests[0]"}},
		{"a launcher claims for itself", ValidateStatus, launcher, "n1", guest("", ""), guest("", "nodeName: n1"), nil},
		{"not for others", ValidateStatus, launcher, "n1", guest("", ""), guest("", "nodeName: n2"), []string{"status.nodeName"}},
		{"and takes no guest away", ValidateStatus, launcher, "n1", guest("", "nodeName: n2"), guest("", "nodeName: n1"),
			[]string{"status.nodeName", "status.nodeName"}},
		{"one without a node neither", ValidateStatus, launcher, "", guest("", "nodeName: n2"), guest("", "nodeName: n1"), []string{"status.nodeName"}},
		{"nor lets a guest go that it has claimed", ValidateStatus, launcher, "n1", guest("", "nodeName: n1"), guest("", ""), []string{"status.nodeName"}},
		{"nor does a controller of Kiln move one", ValidateStatus, controller, "", guest("", "nodeName: n1"), guest("", "nodeName: n2"), []string{"status.nodeName"}},
		{"KubeVirt migrates its guests", ValidateStatus, "system:serviceaccount:kubevirt:kubevirt-handler", "", guest("", "nodeName: n1"), guest("", "nodeName: n2"),
			nil},
		{"one on a bare machine has no node in its token", ValidateStatus, launcher, "", guest("", ""), guest("", "nodeName: n1"), nil},
		{"the controllers' own pod is on a node too", ValidateStatus, controller, "n1", guest("", "nodeName: n2"), guest("", "nodeName: n2, phase: Failed"), nil},
	} {
		t.Run(test.why, func(t *testing.T) {
			request := update(t, test.before, test.after)
			request.UserInfo = authenticationv1.UserInfo{Username: test.user}
			if test.node != "" {
				request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{nodeClaim: {test.node}}
			}
			if diff := cmp.Diff(test.want, fieldsOf(ask(t, c.Hooks()[test.path], request))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestWhoMayOwnANewGuest: a user's guest that came with an owner would be stopped, recorded and succeeded by that VM.
func TestWhoMayOwnANewGuest(t *testing.T) {
	c := newCluster(t)
	const guest = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\n" +
		"metadata: {name: a, ownerReferences: [{apiVersion: %s, kind: VirtualMachine, name: v, uid: u, controller: true}]}\n" +
		"spec: {architecture: amd64, domain: {devices: {}, memory: {guest: 1Gi}}}"
	for _, test := range []struct {
		user, version string
		want          []string
	}{
		{"eve", "kubevirt.io/v1", []string{"metadata.ownerReferences[0]"}},
		{"eve", "kubevirt.io/v1alpha3", []string{"metadata.ownerReferences[0]"}},
		{"eve", "example.com/v1", nil},
		{launcher, "kubevirt.io/v1", nil},
		{controller, "kubevirt.io/v1", nil},
		{"system:serviceaccount:kubevirt:kubevirt-controller", "kubevirt.io/v1", nil},
	} {
		request := create(t, fmt.Sprintf(guest, test.version))
		request.UserInfo.Username = test.user
		for _, path := range []string{MutateVMI, ValidateVMI} {
			if diff := cmp.Diff(test.want, fieldsOf(ask(t, c.Hooks()[path], request))); diff != "" {
				t.Errorf("%s by '%s', owner of %s: -want +got\n%s", path, test.user, test.version, diff)
			}
		}
	}
}

// TestHardwareIsJudgedWhenItIsWritten: what a VM's later boots are made from, wherever it is written.
func TestHardwareIsJudgedWhenItIsWritten(t *testing.T) {
	c := newCluster(t)
	vm := func(metadata, spec, template string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a, namespace: team, " + metadata + "}\nspec: {runStrategy: Halted, " + spec +
			"template: {metadata: {" + template + "}, spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}"
	}
	plain := vm("", "", "")
	for _, test := range []struct {
		why, before, after string
		want               []string
	}{
		{"a slip of the pen", "", vm("annotations: {kilnvm.io/hardware: lates}", "", ""), []string{"metadata.annotations[kilnvm.io/hardware]"}},
		{"also when nothing else changes", plain, vm("annotations: {kilnvm.io/hardware: lates}", "", ""), []string{"metadata.annotations[kilnvm.io/hardware]"}},
		{"one from before this rule keeps nobody from anything", vm("annotations: {kilnvm.io/hardware: lates}", "", ""),
			vm("annotations: {kilnvm.io/hardware: lates}, labels: {a: b}", "", ""), nil},
		{"the word", plain, vm("annotations: {kilnvm.io/hardware: latest}", "", ""), nil},
		{"an unknown kind", "", vm("", "instancetype: {name: small, kind: foo}, ", ""), []string{"spec.instancetype.kind"}},
		{"a revision that is not there", "", vm("", "preference: {name: small, revisionName: gone}, ", ""), []string{"spec.preference.revisionName"}},
	} {
		request := create(t, test.after)
		if test.before != "" {
			request = update(t, test.before, test.after)
		}
		if diff := cmp.Diff(test.want, fieldsOf(ask(t, c.Hooks()[ValidateVM], request))); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.why, diff)
		}
	}
}

// fieldsOf are the fields that a refusal names; nil when the request is allowed.
func fieldsOf(response *admissionv1.AdmissionResponse) (fields []string) {
	if response.Allowed {
		return nil
	}
	for _, cause := range response.Result.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

// TestWarningsOnUpdates: an update returns a warning that names the fields which a running VMI does not take over.
func TestWarningsOnUpdates(t *testing.T) {
	c := newCluster(t)
	vm := func(strategy, domain, created string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: " + strategy +
			", template: {spec: {domain: {memory: {guest: 1Gi}, " + domain + "}}}}\nstatus: {created: " + created + "}"
	}
	const restart = "changes take effect live if possible, else when the VM is restarted: "
	for _, test := range []struct {
		why, before, after string
		want               []string
	}{
		{"what is refused takes no effect", vm("Always", "devices: {}", "true"),
			vm("Always", "cpu: {cores: 2}, devices: {rng: {}, tpm: {}, gpus: [{}]}", "true"), nil},
		{"a guest keeps its CPUs", vm("Always", "devices: {}", "true"), vm("Always", "cpu: {cores: 2}, devices: {rng: {}}", "true"),
			[]string{restart + "domain.cpu, domain.devices.rng"}},
		{"a VM that has no guest has nothing to wait for", vm("Halted", "devices: {}", "false"), vm("Halted", "cpu: {cores: 2}, devices: {}", "false"), nil},
		{"a run strategy acts at once", vm("Always", "devices: {}", "true"), vm("Halted", "devices: {}", "true"), nil},
		{"as many as a warning has room for", vm("Always", "devices: {}", "true"),
			vm("Always", "features: {acpi: {}}, devices: {autoattachGraphicsDevice: false, autoattachMemBalloon: false, autoattachSerialConsole: false}", "true"),
			[]string{restart + "domain.features and 3 more"}},
	} {
		response := ask(t, c.Hooks()[ValidateVM], update(t, test.before, test.after))
		if response.Allowed == strings.HasPrefix(test.why, "what is refused") {
			t.Errorf("%s: allowed %t: %+v", test.why, response.Allowed, response.Result)
		}
		if diff := cmp.Diff(test.want, response.Warnings); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.why, diff)
		}
	}
}

// TestLongNamesInWarnings: a name may have 253 characters, and a warning 256. The name is cut, and not what is said of it.
func TestLongNamesInWarnings(t *testing.T) {
	name := strings.Repeat("long.", 50) + "er"
	response := ask(t, newCluster(t).Hooks()[ValidateVM],
		create(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, instancetype: {name: "+
			name+"}, template: {spec: {domain: {devices: {}}}}}"))
	if len(response.Warnings) != 1 || utf8.RuneCountInString(response.Warnings[0]) > mostOfWarning ||
		!strings.HasSuffix(response.Warnings[0], "…' does not exist; the VM cannot start until it does") {
		t.Errorf("warnings %q, want one of %d characters at most that says all", response.Warnings, mostOfWarning)
	}
}
