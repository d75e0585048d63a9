package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// alone is a cluster of this test only, whose webhook it may stop.
type alone struct {
	*testing.T
	*cluster.Cluster
}

func newAlone(t *testing.T) alone {
	t.Helper()
	return newAloneWith(t, "")
}

// newAloneWith has a configuration of its own.
func newAloneWith(t *testing.T, configuration string) alone {
	t.Helper()
	return newAloneBy(t, cluster.Options{Configuration: configuration})
}

func newAloneBy(t *testing.T, o cluster.Options) alone {
	t.Helper()
	var err error
	if o.Root, err = filepath.Abs("../.."); err != nil {
		t.Fatal(err)
	}
	o.Dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(used.note(c), c.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := c.Catalog(ctx); err != nil {
		t.Fatal(err)
	}
	return alone{t, c}
}

// space is namespace 'default'.
func (a alone) space() space { return space{T: a.T, on: a.Cluster, name: "default"} }

// accepts runs kubectl, which must succeed.
func (a alone) accepts(why, input string, args ...string) string {
	a.Helper()
	stdout, stderr, err := a.Kubectl(a.Context(), input, args...)
	if err != nil {
		a.Fatalf("%s: kubectl %s: %v: %s", why, strings.Join(args, " "), err, stderr)
	}
	return stdout
}

// refuses runs kubectl, which must fail with this text.
func (a alone) refuses(why, want, input string, args ...string) {
	a.Helper()
	_, stderr, err := a.Kubectl(a.Context(), input, args...)
	if err == nil || !strings.Contains(stderr, want) {
		a.Errorf("%s: want an error with %q, got %v: %s", why, want, err, stderr)
	}
}

const launcher = "--as=system:serviceaccount:kiln-system:kiln-launcher"

// While no replica of the webhook runs, nothing is written that would have to be judged, and everything else goes on. An exception that ends meanwhile has no
// effect afterwards.
func TestWhileTheWebhookIsDown(t *testing.T) {
	t.Parallel()
	a := newAlone(t)
	a.accepts("there is a VM", vm("old", running...), "create", "-f", "-")
	a.accepts("and its guest", "", "wait", "--for=create", "vmi/old", "--timeout=60s")
	a.accepts("there is another", vm("other", running...), "create", "-f", "-")
	a.accepts("and its guest", "", "wait", "--for=create", "vmi/other", "--timeout=60s")
	policy, ends := a.exception()
	if err := a.StopWebhook(); err != nil {
		t.Fatal(err)
	}

	const fails = "failed calling webhook"
	a.refuses("the VM of an exception", fails, sockets("big"), "create", "-f", "-")
	a.refuses("a new VM", fails, vm("new"), "create", "-f", "-")
	a.refuses("an edit of a spec", fails, "", "patch", "vm", "old", "--type=merge", `-p={"spec":{"runStrategy":"Manual"}}`)
	a.refuses("a stop with another edit", fails, "", "patch", "vm", "old", "--type=merge",
		`-p={"spec":{"runStrategy":"Halted","template":{"spec":{"hostname":"a"}}}}`)
	a.accepts("a stop", "", "patch", "vm", "other", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`)
	a.accepts("which ends the guest", "", "wait", "--for=delete", "vmi/other", "--timeout=60s")
	a.refuses("a start", fails, "", "patch", "vm", "other", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`)
	a.refuses("a guest without a VM", fails,
		`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"bare"},"spec":{"domain":{"devices":{}}}}`, "create", "-f", "-")
	a.refuses("an annotation, which a GuestPolicy may be about", fails, "", "annotate", "vm/old", "example.com/note=x")
	a.accepts("a finalizer that goes", "", "patch", "vm", "old", "--type=merge", `-p={"metadata":{"finalizers":null}}`)
	guest := parse(t, a.accepts("reading", "", "get", "vmi", "old", "-o", "json"))
	if err := unstructured.SetNestedField(guest.Object, "n", "status", "nodeName"); err != nil {
		t.Fatal(err)
	}
	a.accepts("what a launcher reports", mustJSON(t, guest), "replace", "--subresource=status", "-f", "-", launcher)
	a.refuses("where a guest runs is a policy's affair, which", "kiln-statuses", "", "patch", "vmi", "old", "--subresource=status", "--type=merge",
		`-p={"status":{"nodeName":"m"}}`)
	a.accepts("reading the catalog", "", "get", "vmcf,vmcp")
	a.accepts("deleting", "", "delete", "vm", "old", "--wait=false")

	a.endException(policy, ends)
	if err := a.StopWebhook(); err != nil {
		t.Fatal(err)
	}
	a.failsOpen()
	if err := a.StartWebhook(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.eventually("the API server reaches the webhook again", func() bool {
		out := a.accepts("a new VM", vm("new"), "create", "--dry-run=server", "-o", `jsonpath={.metadata.annotations.kilnvm\.io/pins}`, "-f", "-")
		return out != ""
	})
	a.accepts("the VM starts by itself", "", "wait", "--for=create", "vmi/unpinned", "--timeout=120s")
}

// exception makes a policy, and an exception from it for VM 'big'. It returns the name of the policy, and when the exception ends.
func (a alone) exception() (policy string, ends time.Time) {
	a.Helper()
	const approver = "approver"
	s := a.space()
	s.must(s.kubectl("", "create", "rolebinding", "approvers", "--clusterrole=kiln-exception-approver", "--user="+approver))
	policy = s.policy("few", fewSocketsExcept(approver))
	s.settled("the policy refuses", func() bool { return s.denied(sockets("big"), policy+"': at most one socket") })
	ends = time.Now().Add(time.Minute)
	s.must(s.kubectl(exceptionText(policy, ends), "create", "-f", "-"))
	s.must(s.kiln("policy", "approve", "big", "--as="+approver))
	s.settled("the exception permits", func() bool {
		return s.kubectl(sockets("big"), "create", "--dry-run=server", "-f", "-").err == nil || time.Now().After(ends)
	})
	return policy, ends
}

// endException starts the webhook when the exception has ended, checks that the policy applies again, and deletes the policy: while a GuestPolicy exists,
// overlay fail-open admits no VM unjudged.
func (a alone) endException(policy string, ends time.Time) {
	a.Helper()
	time.Sleep(time.Until(ends))
	if err := a.StartWebhook(a.Context()); err != nil {
		a.Fatal(err)
	}
	a.space().settled("the exception has ended", func() bool { return a.space().denied(sockets("big"), policy+"': at most one socket") })
	a.accepts("the policy goes", "", "delete", "guestpolicy", policy)
}

// failsOpen: with overlay fail-open VMs are admitted without the webhook, and the controller completes them. The policies judge what they can.
func (a alone) failsOpen() {
	a.Helper()
	if err := a.FailOpen(a.Context()); err != nil {
		a.Fatal(err)
	}
	a.eventually("VMs are admitted unjudged", func() bool {
		_, _, err := a.Kubectl(a.Context(), vm("unjudged"), "create", "--dry-run=server", "-f", "-")
		return err == nil
	})
	a.eventually("every rule is kept by a policy", func() bool {
		_, stderr, err := a.Kubectl(a.Context(), vm("wrong", "runStrategy: Halted", "runStrategy: Halted\n  running: false"), "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(stderr, "kiln-virtualmachines")
	})
	a.costs(a.policies)
	a.accepts("a VM that is to run", vm("unpinned", running...), "create", "-f", "-")
	a.eventually("the controller gives it identity and pins", func() bool {
		made := a.space().get("vm", "unpinned")
		pinned := made.GetAnnotations()[pinsAnnotation]
		return made.GetAnnotations()["kilnvm.io/identity"] == string(made.GetUID()) &&
			strings.Contains(pinned, `"instancetype"`) && strings.Contains(pinned, `"configuration"`)
	})
	a.eventually("no VMI is created that would not be explicit, and the VM says why", func() bool {
		message := a.space().read("vm", "unpinned", `{.status.conditions[?(@.type=="Failure")].message}`).stdout
		return strings.Contains(message, "failed calling webhook")
	})
	a.refuses("the VMI does not exist", "not found", "", "get", "vmi", "unpinned")
}

// costs prints what policies cost while something is done, as docs/how-to/outage.md says.
func (a alone) costs(do func()) {
	a.Helper()
	script := exec.CommandContext(a.Context(), filepath.Join(a.Root, "manifests/policies/cost.sh"), "3")
	script.Env = append(os.Environ(), "KUBECONFIG="+a.Kubeconfig, "PATH="+filepath.Dir(a.Program("kubectl"))+":"+os.Getenv("PATH"))
	var table, complaint bytes.Buffer
	script.Stdout, script.Stderr = &table, &complaint
	if err := script.Start(); err != nil {
		a.Fatal(err)
	}
	do()
	err := script.Wait()
	for _, part := range []string{"%  ValidatingAdmissionPolicies\n", "%  mutating webhooks", "%  validating webhooks", "%  patches"} {
		if err != nil || !strings.Contains(table.String(), part) {
			a.Errorf("%v: no '%s':\n%s\n%s", err, part, table.String(), complaint.String())
		}
	}
	a.Logf("what policies cost:\n%s", table.String())
}

func (a alone) eventually(what string, done func() bool) {
	a.Helper()
	space{T: a.T}.eventually(what, done)
}

// policies applies the wrong manifests of messages/ that manifests/policies covers.
func (a alone) policies() {
	a.Helper()
	for _, name := range covered {
		manifest, err := os.ReadFile(filepath.Join("messages", name+".yaml"))
		if err != nil {
			a.Fatal(err)
		}
		a.refuses("'"+name+"'", "ValidatingAdmissionPolicy", string(manifest), "create", "-f", "-")
	}
}

// covered are the mistakes that need no webhook to be found.
var covered = strings.Fields(`bios-and-efi cdrom-on-virtio disk-without-volume duplicate-disk interface-without-network many-mistakes
	request-above-limit running-and-run-strategy two-pod-networks two-sources unknown-run-strategy volume-without-source wrong-bus
	wrong-host-disk-type wrong-hostname wrong-mac`)
