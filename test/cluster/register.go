package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	mutating   = "mutatingwebhookconfiguration/kiln-mutating"
	validating = "validatingwebhookconfiguration/kiln-validating"
	// policed has the webhooks that the controller writes while a GuestPolicy denies.
	policed = "validatingwebhookconfiguration/kiln-policies"

	// probed is the only name that the webhook is asked about until it is known to be reached.
	probed = "kiln-probe"
)

// registerProbe registers the webhook for objects of one name alone: until it is known that the API server reaches it, nobody
// else's VM may depend on that.
func (c *Cluster) registerProbe(ctx context.Context) error {
	c.registered = true
	return c.apply(ctx, map[string]any{"name": "probe", "expression": "object.metadata.name == '" + probed + "'"})
}

// probe asks the API server for what only the webhook can answer.
func (c *Cluster) probe(ctx context.Context) error { return c.reached(ctx, probed) }

// register registers the webhook for everything, and waits until the API server knows.
func (c *Cluster) register(ctx context.Context) error {
	if err := c.apply(ctx, nil); err != nil {
		return err
	}
	return c.reached(ctx, "kiln-registered")
}

// apply applies our webhook configurations with a URL of this machine in the place of the service.
func (c *Cluster) apply(ctx context.Context, only map[string]any) error {
	var redirected []*unstructured.Unstructured
	for i, configuration := range c.of(configurations) {
		configuration = configuration.DeepCopy()
		hooks, _ := configuration.Object["webhooks"].([]any)
		for _, hook := range hooks {
			c.redirect(hook.(map[string]any), c.url(i), only)
		}
		redirected = append(redirected, configuration)
	}
	return c.applyAll(ctx, redirected)
}

// url is where configuration number i is registered.
func (c *Cluster) url(i int) string {
	if c.direct {
		return "https://" + c.replicas[i%len(c.replicas)].address
	}
	return c.Webhook
}

// RegisterReplicas registers each webhook configuration at a replica of its own. So no process stands between API server and webhook, as none does
// behind a Service. A replica that ends is missing until it is back.
func (c *Cluster) RegisterReplicas(ctx context.Context) error {
	c.direct = true
	return c.register(ctx)
}

// redirect gives a webhook a URL in the place of its service, and a further match condition if there is one. Kubernetes calls
// a webhook only if all its matchConditions are true. A webhook that is called by name has no caBundle yet: the rotation writes it.
func (c *Cluster) redirect(hook map[string]any, url string, only map[string]any) {
	service, _ := hook["clientConfig"].(map[string]any)["service"].(map[string]any)
	client := map[string]any{"url": fmt.Sprintf("%s%v", url, service["path"])}
	if c.byAddress() {
		client["caBundle"] = base64.StdEncoding.EncodeToString(c.CA)
	}
	hook["clientConfig"] = client
	if c.WebhookTimeout > 0 {
		hook["timeoutSeconds"] = c.WebhookTimeout
	}
	if only != nil {
		conditions, _ := hook["matchConditions"].([]any)
		hook["matchConditions"] = append(conditions, only)
	}
}

// reachable bounds how long the API server is asked: it reads new configurations a moment after they are stored, and gives a
// webhook that does not answer five seconds.
const reachable = 20 * time.Second

// reached waits until both webhook configurations work for objects of that name. Nothing is stored.
func (c *Cluster) reached(ctx context.Context, name string) error {
	brief, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	for {
		err := c.ask(ctx, name) // not cut off: the API server's own error says more than that the time is over
		if err == nil {
			return nil
		}
		select {
		case <-brief.Done():
			return errors.Join(fmt.Errorf("the API server does not reach the webhook at %s: %w (WEBHOOK_HOST must be an address or a name "+
				"of this machine that the API server can connect to)", c.Webhook, err), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ask creates, as a dry run, a VMI that only our mutating webhook makes explicit, and a VM about which only our validating
// webhook warns. Beside KubeVirt the namespaces of the system, such as Kiln's own, are not judged.
func (c *Cluster) ask(ctx context.Context, name string) error {
	const domain = `{"domain":{"devices":{},"memory":{"guest":"64Mi"}}}`
	create := []string{"create", "--dry-run=server", "-n", metav1.NamespaceDefault, "-o", "jsonpath={.spec.architecture}", "-f", "-"}
	vmi := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"` + name + `"},"spec":` + domain + `}`
	stdout, stderr, err := c.Kubectl(ctx, vmi, create...)
	if err != nil {
		return withOutput(err, strings.TrimSpace(stderr))
	}
	if stdout == "" {
		return errors.New("guests are admitted without it")
	}
	vm := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"` + name + `"},"spec":{"running":false,"template":{"spec":` + domain + `}}}`
	_, stderr, err = c.Kubectl(ctx, vm, create...)
	if err != nil {
		return withOutput(err, strings.TrimSpace(stderr))
	}
	if !strings.Contains(stderr, "spec.running is deprecated: ") { // KubeVirt's warning has a comma in the place of the colon
		return errors.New("VMs are admitted without it")
	}
	return nil
}

// vacant makes sure that somebody's cluster has no Kiln of its own, and removes what a run that was killed has left: a
// webhook that nobody answers any more.
func (c *Cluster) vacant(ctx context.Context) error {
	if c.own {
		return nil
	}
	service, stderr, err := c.Kubectl(ctx, "", "get", mutating, "--ignore-not-found", "-o", "jsonpath={.webhooks[*].clientConfig.service.name}")
	if err != nil {
		return withOutput(err, stderr)
	}
	if service != "" {
		return fmt.Errorf("kiln is installed in this cluster: %s calls service '%s'; remove it first, or use another cluster", mutating, service)
	}
	return c.unregister(ctx)
}

// unregister removes the webhook configurations, and the certificate for the name that this run was called by.
func (c *Cluster) unregister(ctx context.Context) error {
	for _, args := range [][]string{{mutating, validating, policed}, {"secret/kiln-webhook-tls", "-n", c.Namespace}} {
		if _, stderr, err := c.Kubectl(ctx, "", append([]string{"delete", "--ignore-not-found"}, args...)...); err != nil {
			return withOutput(err, stderr)
		}
	}
	return nil
}
