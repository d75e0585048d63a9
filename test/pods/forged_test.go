package pods

import (
	"fmt"
	"strings"
	"testing"
)

// small is a VirtualMachine without disks, which boots the test guest.
func small(name, further string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %[1]s}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
%[3]s
      domain:
        memory: {guest: 192Mi}
        firmware:
          kernelBoot: {kernelArgs: quiet panic=-1, container: {image: %[2]s, kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}}
        devices: {interfaces: [{name: default, masquerade: {}, ports: [{port: 8080}]}]}
      networks: [{name: default, pod: {}}]
`, name, kernelImage, further)
}

// as runs kubectl with a token and nothing else.
func (n *tenant) as(token string, args ...string) (string, error) {
	n.Helper()
	return shared.Kubectl(n.Context(), append([]string{"--namespace", n.namespace, "--token", token, "--kubeconfig", n.nobody()}, args...)...)
}

// nobody is a kubeconfig of the API server without an account.
func (n *tenant) nobody() string {
	n.Helper()
	server := n.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	file := n.TempDir() + "/nobody"
	for _, args := range [][]string{
		{"config", "--kubeconfig", file, "set-cluster", "c", "--server", server, "--insecure-skip-tls-verify"},
		{"config", "--kubeconfig", file, "set-context", "c", "--cluster", "c"}, {"config", "--kubeconfig", file, "use-context", "c"},
	} {
		n.kubectl(args...)
	}
	return file
}

// TestForgedReports: a tenant who may make tokens of its launchers, create pods and exec into them changes neither the record of a guest that has
// booted nor anything of another guest.
func TestForgedReports(t *testing.T) {
	n := newTenant(t, "forged")
	n.apply(small("mine", "") + "---" + small("other", ""))
	n.phase("mine", "Running")
	n.phase("other", "Running")
	n.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: idle}\nspec:\n  serviceAccountName: guest-mine\n  nodeName: nowhere\n" +
		"  securityContext: {runAsNonRoot: true, runAsUser: 107, seccompProfile: {type: RuntimeDefault}}\n  containers:\n" +
		"  - {name: c, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}\n")
	state := func() string {
		return n.kubectl("get", "guesthardwares,guestpods", "-o", `jsonpath={range .items[*]}{.metadata.name}{.spec}{.status}{"\n"}{end}`) +
			n.kubectl("get", "vmi", "-o", `jsonpath={range .items[*]}{.metadata.name}{.status.phase}{.status.activePods}{"\n"}{end}`)
	}
	before := state()
	bound := func(pod string) string {
		return strings.TrimSpace(n.kubectl("create", "token", "guest-mine", "--bound-object-kind", "Pod", "--bound-object-name", pod))
	}
	ended := `{"status":{"domain":{"state":"PoweredOff"}}}`
	patched := func(kind, name, patch string) []string {
		return []string{"patch", kind, name, "--subresource", "status", "--type", "merge", "--patch", patch}
	}
	for _, c := range []struct {
		why, token, want string
		args             []string
	}{
		{"a token without a pod", strings.TrimSpace(n.kubectl("create", "token", "guest-mine")), "pod", patched("guestpod", "mine", ended)},
		{"a token of another pod of the account", bound("idle"), "pod", patched("guestpod", "mine", ended)},
		{"the report of another guest", bound("guest-mine"), "orbidden", patched("guestpod", "other", ended)},
		{"the status of the VMI", bound("guest-mine"), "orbidden", patched("vmi", "mine", `{"status":{"phase":"Failed"}}`)},
		{"the record", bound("guest-mine"), "orbidden",
			[]string{"patch", "guesthardware", "mine", "--type", "merge", "--patch", `{"spec":{"hardware":{"machine":"pc-q35-6.0"}}}`}},
		{"what the controller tells the launcher", bound("guest-mine"), "orbidden",
			[]string{"patch", "guestpod", "mine", "--type", "merge", "--patch", `{"spec":{"podUID":"x"}}`}},
		{"a secret of the namespace", bound("guest-mine"), "orbidden", []string{"get", "secrets"}},
	} {
		if out, err := n.as(c.token, c.args...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, want a refusal that says '%s':\n%s", c.why, err, c.want, out)
		}
	}
	if out, err := n.as(bound("guest-mine"), patched("guestpod", "mine", `{"status":{"facts":{"machine":"pc-q35-6.0"}}}`)...); err != nil {
		t.Errorf("a tenant is its launcher, and its report is written: %v %s", err, out)
	}
	n.kubectl("exec", "guest-mine", "--", "/launcher", "version")
	after := strings.ReplaceAll(state(), `"machine":"pc-q35-6.0"`, "")
	if !strings.Contains(before, "pc-q35-") || strings.Contains(after, "pc-q35-6.0") {
		t.Errorf("a false fact after the start reached the record:\n%s", after)
	}
	n.kubectl("delete", "pod", "idle", "--grace-period=0", "--force")
}

// TestForeignPod: a pod of the guest's name that the controller has not made is left alone and named, until it is gone.
func TestForeignPod(t *testing.T) {
	n := newTenant(t, "foreign")
	n.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: guest-taken, labels: {kubevirt.io: virt-launcher}}\nspec:\n  nodeName: nowhere\n" +
		"  securityContext: {runAsNonRoot: true, runAsUser: 107, seccompProfile: {type: RuntimeDefault}}\n  containers:\n" +
		"  - {name: c, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}\n")
	n.apply(small("taken", ""))
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
