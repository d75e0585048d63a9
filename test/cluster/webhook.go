package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/util/cert"
)

// configuration of the cluster that tests and 'make run' use: hostDisk is a gate, as in KubeVirt.
const configuration = `developerConfiguration: {featureGates: [HostDisk]}
`

// startWebhook runs the webhook with a certificate for the address at which the API server reaches it.
func (c *Cluster) startWebhook(ctx context.Context) error {
	certs := filepath.Join(c.Dir, "certs")
	if err := c.writeCertificate(certs); err != nil {
		return err
	}
	config := filepath.Join(c.Dir, "configuration.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return err
	}
	port, err := freePort(c.Host)
	if err != nil {
		return fmt.Errorf("WEBHOOK_HOST '%s' is not an address of this machine: %w", c.Host, err)
	}
	health, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	c.Webhook = "https://" + net.JoinHostPort(c.Host, strconv.Itoa(port))
	c.health = "127.0.0.1:" + strconv.Itoa(health)
	p, _, err := c.start("webhook", "--kubeconfig", c.Kubeconfig, "--certs", certs, "--config", config,
		"--host", c.Host, "--port", strconv.Itoa(port), "--health", c.health)
	if err != nil {
		return err
	}
	return await(ctx, p, func() error { return answers("http://" + c.health + "/readyz") })
}

func (c *Cluster) writeCertificate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var ips []net.IP
	var names []string
	if ip := net.ParseIP(c.Host); ip != nil {
		ips = append(ips, ip)
	} else {
		names = append(names, c.Host)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(c.Host, ips, names)
	if err != nil {
		return err
	}
	c.CA = certificate
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)
}

// register applies our webhook configurations with the URL of this process in the place of the service.
func (c *Cluster) register(ctx context.Context) error {
	list, stderr, err := c.Kubectl(ctx, "", "create", "--dry-run=client", "-o", "json", "-k", filepath.Join(c.Root, "manifests/webhook/configurations"))
	if err != nil {
		return fmt.Errorf("manifests/webhook/configurations: %w: %s", err, stderr)
	}
	configurations, err := documents(list)
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		hooks, _ := configuration["webhooks"].([]any)
		for _, hook := range hooks {
			client, _ := hook.(map[string]any)["clientConfig"].(map[string]any)
			service, _ := client["service"].(map[string]any)
			hook.(map[string]any)["clientConfig"] = map[string]any{
				"url": fmt.Sprintf("%s%v", c.Webhook, service["path"]), "caBundle": base64.StdEncoding.EncodeToString(c.CA)}
		}
		raw, err := json.Marshal(configuration)
		if err != nil {
			return err
		}
		if _, stderr, err := c.Kubectl(ctx, string(raw), "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
	}
	return c.reached(ctx)
}

// reached asks the API server for a dry run that only the webhook can answer.
func (c *Cluster) reached(ctx context.Context) error {
	probe := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"kiln-probe","namespace":"default"},
		"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{},"memory":{"guest":"64Mi"}}}}}}`
	_, stderr, err := c.Kubectl(ctx, probe, "create", "--dry-run=server", "-f", "-")
	if err != nil {
		return fmt.Errorf("the API server does not reach the webhook at %s: %s(set WEBHOOK_HOST to an address of this machine that it can reach)", c.Webhook, stderr)
	}
	return nil
}

// documents decodes what kubectl prints for one or several objects: JSON values one after the other, or a List.
func documents(text string) ([]map[string]any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	var all []map[string]any
	for decoder.More() {
		var object map[string]any
		if err := decoder.Decode(&object); err != nil {
			return nil, err
		}
		items, isList := object["items"].([]any)
		if !isList {
			all = append(all, object)
		}
		for _, item := range items {
			all = append(all, item.(map[string]any))
		}
	}
	return all, nil
}
