package admission

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	controller = "system:serviceaccount:kiln-system:kiln-webhook"
	launcher   = "system:serviceaccount:kiln-system:kiln-launcher"
	collector  = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// TestWhoMayChangeWhat: users change what their guests want to be, controllers what they are.
func TestWhoMayChangeWhat(t *testing.T) {
	c := newCluster(t)
	guest := func(meta, status string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a, " + meta + "}\nspec: {domain: {devices: {}, memory: {guest: 1Gi}}}\nstatus: {" + status + "}"
	}
	owned := "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: v, uid: u, controller: true}]"
	blocking := "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: v, uid: u, controller: true, blockOwnerDeletion: true}]"
	vm := func(status string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\nstatus: {" + status + "}"
	}
	for _, test := range []struct {
		why, path, user, node string
		before, after         string
		want                  []string
	}{
		{"anybody may label a guest", ValidateVMI, "eve", "", guest("", ""), guest("labels: {a: b}", ""), nil},
		{"a guest's owner is its controller's to set", ValidateVMI, "eve", "", guest("", ""), guest(owned, ""), []string{"metadata.ownerReferences[0]"}},
		{"which it does", ValidateVMI, controller, "", guest("", ""), guest(owned, ""), nil},
		{"other owners are nobody's business", ValidateVMI, "eve", "", guest("", ""), guest("ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: v, uid: u}]", ""), nil},
		{"an owner may go", ValidateVMI, "eve", "", guest(owned, ""), guest("", ""), nil},
		{"the garbage collector unblocks", ValidateVMI, collector, "", guest(blocking, ""), guest(owned, ""), nil},
		{"another owner is a change", ValidateVMI, "eve", "", guest(owned, ""), guest("ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: w, uid: x, controller: true}]", ""), []string{"metadata.ownerReferences[0]"}},
		{"labels of controllers are theirs", ValidateVMI, "eve", "", guest("", ""), guest("labels: {kubevirt.io/nodeName: node1}", ""), []string{"metadata.labels[kubevirt.io/nodeName]"}},
		{"a launcher keeps to its node", ValidateVMI, launcher, "n1", guest("", "nodeName: n2"), guest("labels: {a: b}", "nodeName: n2"), []string{"status.nodeName"}},
		{"whose guests it may change", ValidateVMI, launcher, "n2", guest("", "nodeName: n2"), guest("labels: {a: b}", "nodeName: n2"), nil},
		{"users write no status", ValidateStatus, "eve", "", guest("", ""), guest("", "phase: Running"), []string{"status"}},
		{"not even of a VM", ValidateStatus, "eve", "", vm(""), vm("ready: true"), []string{"status"}},
		{"nothing changed is nothing written", ValidateStatus, "eve", "", vm("ready: true"), vm("ready: true"), nil},
		{"controllers do", ValidateStatus, controller, "", vm(""), vm("ready: true"), nil},
		{"but legal requests only", ValidateStatus, controller, "", vm(""), vm("volumeRequests: [{}]"), []string{"status.volumeRequests[0]"}},
		{"a launcher claims for itself", ValidateStatus, launcher, "n1", guest("", ""), guest("", "nodeName: n1"), nil},
		{"not for others", ValidateStatus, launcher, "n1", guest("", ""), guest("", "nodeName: n2"), []string{"status.nodeName"}},
		{"and takes no guest away", ValidateStatus, launcher, "n1", guest("", "nodeName: n2"), guest("", "nodeName: n1"), []string{"status.nodeName"}},
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

// TestWarningsOnUpdates: what a guest that exists does not take over is told, by the names of the fields.
func TestWarningsOnUpdates(t *testing.T) {
	c := newCluster(t)
	vm := func(strategy, domain, created string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: " + strategy +
			", template: {spec: {domain: {memory: {guest: 1Gi}, " + domain + "}}}}\nstatus: {created: " + created + "}"
	}
	const told = "changes take effect when the guest is started again: "
	for _, test := range []struct {
		why, before, after string
		want               []string
	}{
		{"a guest keeps its CPUs", vm("Always", "devices: {}", "true"), vm("Always", "cpu: {cores: 2}, devices: {rng: {}}", "true"), []string{told + "domain.cpu, domain.devices.rng"}},
		{"a VM that has no guest has nothing to wait for", vm("Halted", "devices: {}", "false"), vm("Halted", "cpu: {cores: 2}, devices: {}", "false"), nil},
		{"a run strategy acts at once", vm("Always", "devices: {}", "true"), vm("Halted", "devices: {}", "true"), nil},
		{"as many as a warning has room for", vm("Always", "devices: {}", "true"),
			vm("Always", "features: {acpi: {}}, devices: {autoattachGraphicsDevice: false, autoattachMemBalloon: false, autoattachSerialConsole: false}", "true"),
			[]string{told + "domain.features and 3 more"}},
	} {
		response := ask(t, c.Hooks()[ValidateVM], update(t, test.before, test.after))
		if !response.Allowed {
			t.Errorf("%s: refused: %+v", test.why, response.Result)
		}
		if diff := cmp.Diff(test.want, response.Warnings); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.why, diff)
		}
	}
}

// TestLongNamesInWarnings: a name may have 253 characters, and a warning 120.
func TestLongNamesInWarnings(t *testing.T) {
	name := strings.Repeat("long.", 50) + "er"
	response := ask(t, newCluster(t).Hooks()[ValidateVM], create(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, instancetype: {name: "+
		name+"}, template: {spec: {domain: {devices: {}}}}}"))
	if len(response.Warnings) != 1 || utf8.RuneCountInString(response.Warnings[0]) != maxWarning {
		t.Errorf("warnings %q, want one of %d characters", response.Warnings, maxWarning)
	}
}
