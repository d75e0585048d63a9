package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kilnvm/kiln/test/ports"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
)

// configuration of the cluster that tests and 'make run' use: hostDisk is a gate, as in KubeVirt.
const configuration = `developerConfiguration: {featureGates: [HostDisk]}
`

// byAddress tells that the API server calls the webhook by an IP address. The rotation that is built in signs for names only,
// so that such a webhook gets a certificate from here.
func (c *Cluster) byAddress() bool { return net.ParseIP(c.Host) != nil }

// becomesReady bounds the start of the webhook, which takes seconds. One that cannot connect to its own address never is ready.
const becomesReady = 90 * time.Second

// startWebhook runs the webhook as its service account, and waits until each replica serves a certificate that the API server
// has been told to trust.
func (c *Cluster) startWebhook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, becomesReady)
	defer cancel()
	for _, r := range c.replicas {
		if err := c.runReplica(r); err != nil {
			return err
		}
	}
	for _, r := range c.replicas {
		if err := c.joins(ctx, r); err != nil {
			return err
		}
	}
	return c.readBundle(ctx)
}

// runReplica starts a process of the webhook at the addresses of a replica.
func (c *Cluster) runReplica(r *replica) error {
	kubeconfig, err := c.access(webhookAccount)
	if err != nil {
		return err
	}
	args := []string{"--kubeconfig", kubeconfig, "--namespace", c.Namespace, "--kubevirt-namespace", c.KubeVirt,
		"--config", c.configured(), "--cert-dir", c.certs(), "--shutdown-delay-duration", c.Drain.String(),
		"--health-probe-bind-address", r.health, "--metrics-bind-address", r.metrics, "--webhook-bind-address", r.address}
	if c.byAddress() { // the rotation signs for the name of the Service too
		args = append(args, "--certificate-name", c.Host)
	}
	if c.Hook != "" {
		args = append(args, "--hook-image", c.Hook, "--hook-protocol", c.HookProtocol)
	}
	if c.Enforcement != "" {
		args = append(args, "--enforcement", c.Enforcement)
	}
	program := cmp.Or(r.program, "webhook")
	if program == "webhook" { // of this tree: earlier ones do not know the flag
		args = append(args, "--runtime=node")
	}
	r.process, _, err = c.startIn(c.Env, program, args...)
	return err
}

// joins waits until a replica is ready, and gives it requests then.
func (c *Cluster) joins(ctx context.Context, r *replica) error {
	if err := await(ctx, r.process, func() error { return answers("http://" + r.health + "/readyz") }); err != nil {
		return err
	}
	if c.balancer != nil {
		c.balancer.add(r.address)
	}
	return nil
}

// Secured returns the addresses at which Kiln's programs serve over TLS: replicas of the webhook, and the API server of subresources if it runs.
func (c *Cluster) Secured() (addresses []string) {
	for _, r := range c.replicas {
		addresses = append(addresses, r.address)
	}
	if c.apiServer != nil {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", c.apiServer.port))
	}
	return addresses
}

// certs is the folder of the webhook's certificate, which all replicas share.
func (c *Cluster) certs() string { return filepath.Join(c.Dir, "certs") }

func (c *Cluster) configFile() string { return filepath.Join(c.Dir, "configuration.yaml") }

// configured is the value of --config: empty beside KubeVirt, whose KubeVirt object has the configuration.
func (c *Cluster) configured() string {
	if c.beside {
		return ""
	}
	return c.configFile()
}

func (c *Cluster) configure(context.Context) error {
	return c.Configure(cmp.Or(c.Configuration, configuration))
}

// Configure writes the configuration of the cluster, which takes effect within some ten seconds, and when programs start.
func (c *Cluster) Configure(text string) error {
	c.Configuration = text
	return os.WriteFile(c.configFile(), []byte(text), 0o600)
}

// StopWebhook ends all replicas. Their registration stays, as when a deployment is down.
func (c *Cluster) StopWebhook() error {
	var errs []error
	for _, r := range c.replicas {
		if c.balancer != nil {
			c.balancer.remove(r.address)
		}
		errs = append(errs, r.process.stop())
	}
	return errors.Join(errs...)
}

// StartWebhook brings back what StopWebhook has ended, at the same addresses.
func (c *Cluster) StartWebhook(ctx context.Context) error { return c.startWebhook(ctx) }

// replica is one process of the webhook at its addresses.
type replica struct {
	address, health, metrics string
	// program is another binary than the webhook of this tree; empty for that one.
	program string
	process *process // the last one that was started
}

// lay chooses the ports, so that the webhook can be registered before it runs: the rotation puts its CA into what is registered.
func (c *Cluster) lay(context.Context) error {
	for range max(c.Replicas, 1) {
		r, err := c.place()
		if err != nil {
			return fmt.Errorf("WEBHOOK_HOST '%s' is not an address of this machine: %w", c.Host, err)
		}
		c.replicas = append(c.replicas, r)
	}
	c.Webhook = "https://" + c.replicas[0].address
	if len(c.replicas) > 1 {
		var err error
		if c.balancer, err = balance(); err != nil {
			return err
		}
		c.Webhook = "https://" + net.JoinHostPort(c.Host, strconv.Itoa(c.balancer.port()))
	}
	if c.byAddress() {
		return c.writeCertificate()
	}
	return nil
}

// place chooses the addresses of a replica.
func (c *Cluster) place() (*replica, error) {
	address, err := ports.Address(c.Host)
	if err != nil {
		return nil, err
	}
	health, err := ports.Address("127.0.0.1")
	if err != nil {
		return nil, err
	}
	metrics, err := ports.Address("127.0.0.1")
	if err != nil {
		return nil, err
	}
	return &replica{program: c.programOf("webhook"), address: address, health: health, metrics: metrics}, nil
}

func (c *Cluster) writeCertificate() error {
	// It returns the certificate and after it the CA that signed it, so that this one file serves as the CA bundle too.
	certificate, key, err := cert.GenerateSelfSignedCertKey(c.Host, []net.IP{net.ParseIP(c.Host)}, nil)
	if err != nil {
		return err
	}
	c.CA = certificate
	return errors.Join(os.MkdirAll(c.certs(), 0o700), replace(filepath.Join(c.certs(), corev1.TLSPrivateKeyKey), key),
		replace(filepath.Join(c.certs(), corev1.TLSCertKey), certificate))
}

// readBundle reads what the API server trusts: the rotation has written it by now.
func (c *Cluster) readBundle(ctx context.Context) error {
	out, stderr, err := c.Kubectl(ctx, "", "get", mutating, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
	if err != nil {
		return withOutput(err, stderr)
	}
	if c.CA, err = base64.StdEncoding.DecodeString(out); err != nil {
		return err
	}
	if len(c.CA) == 0 {
		return fmt.Errorf("%s has no caBundle, although the webhook says that it is ready", mutating)
	}
	return nil
}
