package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// While no replica of the webhook runs, nothing is written that would have to be judged, and everything else goes on.
func TestWhileTheWebhookIsDown(t *testing.T) {
	t.Parallel()
	a := newAlone(t)
	a.accepts("there is a VM", vm("old", running...), "create", "-f", "-")
	a.accepts("and its guest", "", "wait", "--for=create", "vmi/old", "--timeout=60s")
	if err := a.StopWebhook(); err != nil {
		t.Fatal(err)
	}

	const fails = "failed calling webhook"
	a.refuses("a new VM", fails, vm("new"), "create", "-f", "-")
	a.refuses("an edit of a spec", fails, "", "patch", "vm", "old", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`)
	a.refuses("a guest without a VM", fails,
		`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"bare"},"spec":{"domain":{"devices":{}}}}`, "create", "-f", "-")
	a.accepts("somebody's annotation", "", "annotate", "vm/old", "example.com/note=x")
	guest := parse(t, a.accepts("reading", "", "get", "vmi", "old", "-o", "json"))
	if err := unstructured.SetNestedField(guest.Object, "n", "status", "nodeName"); err != nil {
		t.Fatal(err)
	}
	a.accepts("what a launcher reports", mustJSON(t, guest), "replace", "--subresource=status", "-f", "-", launcher)
	a.refuses("where a guest runs is a policy's affair, which", "kiln-statuses", "", "patch", "vmi", "old", "--subresource=status", "--type=merge",
		`-p={"status":{"nodeName":"m"}}`)
	a.accepts("reading the catalog", "", "get", "vmcf,vmcp")
	a.accepts("deleting", "", "delete", "vm", "old", "--wait=false")

	// With failurePolicy Ignore VMs are admitted without the webhook. The policies still judge what they can.
	for _, kind := range []string{"mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating"} {
		hooks := strings.Fields(a.accepts("the configuration", "", "get", kind, "-o", "jsonpath={.webhooks[*].name}"))
		var ignore []string
		for i := range hooks {
			ignore = append(ignore, `{"op":"replace","path":"/webhooks/`+string(rune('0'+i))+`/failurePolicy","value":"Ignore"}`)
		}
		a.accepts("ignoring failures", "", "patch", kind, "--type=json", "-p=["+strings.Join(ignore, ",")+"]")
	}
	a.eventually("VMs are admitted unjudged", func() bool {
		_, _, err := a.Kubectl(t.Context(), vm("unjudged"), "create", "--dry-run=server", "-f", "-")
		return err == nil
	})
	a.policies()

	if err := a.StartWebhook(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.eventually("the API server reaches the webhook again", func() bool {
		out := a.accepts("a new VM", vm("new"), "create", "--dry-run=server", "-o", `jsonpath={.metadata.annotations.kilnvm\.io/pins}`, "-f", "-")
		return out != ""
	})
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
