package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// service is a pod behind a ClusterIP, on the port of HTTP or, with a certificate, of HTTPS.
func service(name string, port int, volumes string) string {
	return pod(name, volumes) + fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: %[2]d}]}
`, name, port)
}

func TestService(t *testing.T) {
	Require(t)
	namespace(t, "service", service("server", 8080, "")+"---\n"+pod("client", ""))
	running(t, "service", "server")
	running(t, "service", "client")
	url := "http://" + kubectl(t, "service", "get", "service", "server", "-o", "jsonpath={.spec.clusterIP}") + ":8080"
	eventually(t, "a pod reaches the service", func() (string, bool) {
		out, err := shared.Kubectl(t.Context(), "--namespace", "service", "exec", "client", "--", "/probe", "fetch", url)
		return out, err == nil && strings.HasPrefix(out, "server to 10.201.") // whichever node the client is on
	})
	if got := get(t, url); !strings.HasPrefix(got, "server to ") {
		t.Errorf("Dial: want the pod's answer, got %q", got)
	}
}

const webhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: refuse.node.test
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 5
  matchConditions: [{name: refused, expression: "object.metadata.name == 'refused'"}]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  clientConfig: {service: {namespace: %[1]s, name: hook, port: 8443, path: /admit}, caBundle: %[2]s}
`

// The API server calls a webhook as in a real cluster: by the ClusterIP of a Service, and a pod answers.
func TestWebhookBehindService(t *testing.T) {
	Require(t)
	const own = "webhook"
	certificate, key, err := cert.GenerateSelfSignedCertKey("hook."+own+".svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	secret := fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: tls}\ndata: {tls.crt: %s, tls.key: %s}\n", encode(certificate), encode(key))
	objects := service("hook", 8443, "  volumes: [{name: tls, secret: {secretName: tls}}]") + secret
	namespace(t, own, strings.Replace(objects, "args: [serve]", "args: [serve, /tls], volumeMounts: [{name: tls, mountPath: /tls}]", 1))
	running(t, own, "hook")
	file := filepath.Join(t.TempDir(), "webhook.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, webhook, own, encode(certificate)), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, own, "apply", "-f", file)
	t.Cleanup(func() {
		if out, err := shared.Kubectl(context.Background(), "delete", "-f", file); err != nil {
			t.Error(err, out)
		}
	})
	eventually(t, "the pod's refusal", func() (string, bool) {
		out, err := shared.Kubectl(t.Context(), "--namespace", own, "create", "configmap", "refused", "--dry-run=server")
		return out, err != nil && strings.Contains(out, "refused by pod hook")
	})
	kubectl(t, own, "create", "configmap", "other", "--dry-run=server")
}

// The scheduler knows what the node has.
func TestScheduler(t *testing.T) {
	Require(t)
	namespace(t, "scheduler", strings.Replace(pod("huge", ""), "args: [serve]", "args: [serve], resources: {requests: {cpu: 4000}}", 1))
	eventually(t, "the scheduler's refusal", func() (string, bool) {
		out := kubectl(t, "scheduler", "get", "pod", "huge", "-o", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
		return out, strings.Contains(out, "Insufficient cpu")
	})
}

// Config serves Go's clients, by the port of this machine.
func TestConfig(t *testing.T) {
	Require(t)
	config := shared.Config()
	if !strings.HasPrefix(config.Host, "https://127.0.0.1:") {
		t.Errorf("host: want a port of this machine, got %s", config.Host)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("readyz: want 200, got %s", response.Status)
	}
}
