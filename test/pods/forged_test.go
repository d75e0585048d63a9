package pods

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// patch sends a merge patch with a token and nothing else. kubectl would read the object first, and be refused for that.
func (n *tenant) patch(token, resource, name, subresource, patch string) error {
	n.Helper()
	admin := shared.Config()
	access := &rest.Config{Host: admin.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData, CAFile: admin.CAFile}}
	client, err := dynamic.NewForConfig(access)
	if err != nil {
		n.Fatal(err)
	}
	kind := schema.GroupVersionResource{Group: "kilnvm.io", Version: "v1alpha1", Resource: resource}
	if resource == "virtualmachineinstances" {
		kind.Group, kind.Version = "kubevirt.io", "v1"
	}
	var below []string
	if subresource != "" {
		below = []string{subresource}
	}
	_, err = client.Resource(kind).Namespace(n.namespace).Patch(n.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, below...)
	return err
}

// TestForgedReports: a tenant who may make tokens of its launchers, create pods and exec into them changes neither the record of a guest that has
// booted nor anything of another guest.
func TestForgedReports(t *testing.T) {
	n := newTenant(t, "forged")
	n.apply(small("mine") + small("other"))
	n.phase("mine", "Running")
	n.phase("other", "Running")
	n.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: idle}\nspec:\n  serviceAccountName: guest-mine\n  nodeName: nowhere\n" +
		"  securityContext: {runAsNonRoot: true, runAsUser: 107, seccompProfile: {type: RuntimeDefault}}\n  containers:\n" +
		"  - {name: c, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}\n")
	state := func() string {
		return n.kubectl("get", "guesthardwares,guestpods", "-o", `jsonpath={range .items[*]}{.metadata.name}{.spec}{"\n"}{end}`) +
			n.kubectl("get", "vmi", "-o", `jsonpath={range .items[*]}{.metadata.name}{.status.phase}{.status.activePods}{"\n"}{end}`)
	}
	n.eventually("both launchers know their clients", func() (string, bool) { // kubelet gives the controller a new Secret within two minutes
		out := n.kubectl("get", "guestpods", "-o", "jsonpath={.items[*].spec.clients.name}")
		return out, len(strings.Fields(out)) == 2
	})
	before := state()
	bound := func(pod string) string {
		return strings.TrimSpace(n.kubectl("create", "token", "guest-mine", "--bound-object-kind", "Pod", "--bound-object-name", pod))
	}
	const (
		ended = `{"status":{"domain":{"state":"PoweredOff"}}}`
		// theirs is the policy's message, rights RBAC's message.
		theirs, rights = "only the launcher in the pod of spec.podUID may write status", "cannot patch resource"
	)
	mine := bound("guest-mine")
	for _, c := range []struct{ why, token, resource, name, subresource, patch, want string }{
		{"a token without a pod", strings.TrimSpace(n.kubectl("create", "token", "guest-mine")), "guestpods", "mine", "status", ended, theirs},
		{"a token of another pod of the account", bound("idle"), "guestpods", "mine", "status", ended, theirs},
		{"the report of another guest", mine, "guestpods", "other", "status", ended, rights},
		{"the status of the VMI", mine, "virtualmachineinstances", "mine", "status", `{"status":{"phase":"Failed"}}`, rights},
		{"the record", mine, "guesthardwares", "mine", "", `{"spec":{"hardware":{"machine":"pc-q35-6.0"}}}`, rights},
		{"what the controller tells the launcher", mine, "guestpods", "mine", "", `{"spec":{"podUID":"x"}}`, rights},
	} {
		if err := n.patch(c.token, c.resource, c.name, c.subresource, c.patch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a refusal that says '%s'", c.why, err, c.want)
		}
	}
	if err := n.patch(mine, "guestpods", "mine", "status", `{"status":{"facts":{"machine":"pc-q35-6.0"}}}`); err != nil {
		t.Errorf("a tenant is its launcher, and its report is written: %v", err)
	}
	n.secondLauncher("guest-mine", "other")
	time.Sleep(2 * time.Second) // a controller that believed the report would have acted on it
	if after := state(); !strings.Contains(before, "pc-q35-") || after != before {
		t.Errorf("a false fact after the start reached more than the report:\n%s\n%s", before, after)
	}
	n.kubectl("delete", "pod", "idle", "--grace-period=0", "--force")
}

// secondLauncher starts another launcher in a guest's pod, as a tenant does who may exec into it, and has it take another guest. It must be refused; it stays
// until its pod ends.
func (n *tenant) secondLauncher(pod, other string) {
	n.Helper()
	out, err := "", error(nil)
	// The launcher runs until it is killed, and starts slowly on a busy machine.
	for _, wait := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute} {
		ctx, cancel := context.WithTimeout(n.Context(), wait)
		out, err = shared.Kubectl(ctx, "--namespace", n.namespace, "exec", pod, "--", "/launcher", "guest", "--vmi="+other, "--root=/tmp", "--emulate")
		cancel()
		if err != nil && strings.Contains(out, "guestpods.kilnvm.io") && strings.Contains(out, "is forbidden") {
			return
		}
	}
	n.Errorf("a launcher that a tenant starts in pod '%s' says of guest '%s': %v\n%s", pod, other, err, out)
}

// TestForeignPod: a pod of the guest's name that the controller has not made is left alone and named, until it is gone.
func TestForeignPod(t *testing.T) {
	n := newTenant(t, "foreign")
	n.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: guest-taken, labels: {kubevirt.io: virt-launcher}}\nspec:\n  nodeName: nowhere\n" +
		"  securityContext: {runAsNonRoot: true, runAsUser: 107, seccompProfile: {type: RuntimeDefault}}\n  containers:\n" +
		"  - {name: c, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}\n")
	n.apply(small("taken"))
	n.eventually("the VMI names the pod", func() (string, bool) {
		out := n.kubectl("get", "vmi", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Synchronized")]}`)
		return out, strings.Contains(out, "NameTaken") && strings.Contains(out, "guest-taken")
	})
	if out := n.kubectl("get", "guestpods", "-o", "name"); out != "" {
		t.Errorf("there is %s", out)
	}
	n.kubectl("delete", "pod", "guest-taken", "--grace-period=0", "--force")
	n.phase("taken", "Running")
}
