package cluster

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/ports"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
)

// virtAPI is the process of virt-api, at a port of its own.
type virtAPI struct {
	port    int
	process *process // the last one that was started
	// balancer is what the API server calls in the place of virt-api's webhooks.
	balancer *balancer
}

func (a *virtAPI) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port)) }

// virtController is the process of virt-controller.
type virtController struct {
	port    int
	process *process // the last one that was started
}

// startVirtAPI runs virt-api with a new certificate, and waits until it answers. KubeVirt's components find the CA of others in ConfigMaps.
func (b *Beside) startVirtAPI(ctx context.Context) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"virt-api." + b.KubeVirt + ".svc"})
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(b.pkiDir(), 0o700), os.WriteFile(b.tls(corev1.TLSCertKey), certificate, 0o600),
		os.WriteFile(b.tls(corev1.TLSPrivateKeyKey), key, 0o600)); err != nil {
		return err
	}
	for _, name := range []string{"kubevirt-ca", "kubevirt-export-ca", "kubevirt-backup-ca"} {
		if _, err := b.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": b.KubeVirt, "name": name},
			"data": map[string]any{"ca-bundle": string(certificate)},
		}}); err != nil {
			return err
		}
	}
	port, err := ports.Free("127.0.0.1")
	if err != nil {
		return err
	}
	b.api = &virtAPI{port: port}
	if b.api.balancer, err = balance(); err != nil {
		return err
	}
	b.api.balancer.add(b.api.address())
	if b.Expose != nil {
		if err := errors.Join(b.Expose(b.api.port), b.Expose(b.api.balancer.port())); err != nil {
			return err
		}
	}
	return b.StartVirtAPI(ctx)
}

func (b *Beside) tls(name string) string { return filepath.Join(b.pkiDir(), name) }

// StartVirtAPI starts virt-api again at its address, and waits until it answers.
func (b *Beside) StartVirtAPI(ctx context.Context) (err error) {
	b.api.process, err = b.ofKubeVirt("virt-api", "kubevirt-apiserver", b.api.port, "--tls-cert-file", b.tls(corev1.TLSCertKey),
		"--tls-key-file", b.tls(corev1.TLSPrivateKeyKey), "--handler-cert-file", b.tls(corev1.TLSCertKey), "--handler-key-file", b.tls(corev1.TLSPrivateKeyKey))
	if err != nil {
		return err
	}
	return b.answers(ctx, b.api.process, b.api.port, "/healthz", "")
}

// StopVirtAPI ends virt-api. Its registration stays.
func (b *Beside) StopVirtAPI() error { return b.api.process.stop() }

// startVirtController runs virt-controller, and waits until it has the Lease.
func (b *Beside) startVirtController(ctx context.Context) error {
	port, err := ports.Free("127.0.0.1")
	if err != nil {
		return err
	}
	b.controller = &virtController{port: port}
	return b.StartVirtController(ctx)
}

// StartVirtController starts virt-controller again, and waits until it has the Lease, which nobody else holds.
func (b *Beside) StartVirtController(ctx context.Context) (err error) {
	if err := ignoreMissing(b.Delete(ctx, In{b.KubeVirt, "lease"}, "virt-controller")); err != nil {
		return err
	}
	b.controller.process, err = b.ofKubeVirt("virt-controller", "kubevirt-controller", b.controller.port,
		"--launcher-image", "registry.example/virt-launcher:v1.9.0", "--exporter-image", "registry.example/virt-exportserver:v1.9.0",
		"--prom-cert-file", b.tls(corev1.TLSCertKey), "--prom-key-file", b.tls(corev1.TLSPrivateKeyKey))
	if err != nil {
		return err
	}
	return b.answers(ctx, b.controller.process, b.controller.port, "/leader", `"leader": "true"`)
}

// StopVirtController ends virt-controller.
func (b *Beside) StopVirtController() error { return b.controller.process.stop() }

// inPod runs a program of KubeVirt where it finds the namespace in the file of a pod's service account: it looks nowhere else, and has no flag for that.
// Without the file it takes 'kubevirt'. The mount is the program's alone, and setpriv has it die with this process.
const inPod = `mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount &&
printf %s "$1" >/run/secrets/kubernetes.io/serviceaccount/namespace && shift && exec setpriv --pdeathsig TERM "$@"`

// ofKubeVirt starts a program of KubeVirt as its service account. What it logs goes into a file.
func (b *Beside) ofKubeVirt(name, account string, port int, args ...string) (*process, error) {
	kubeconfig, err := b.accessIn(b.KubeVirt, account)
	if err != nil {
		return nil, err
	}
	args = append([]string{"--kubeconfig", kubeconfig, "--listen", "127.0.0.1", "--port", strconv.Itoa(port), "-v", "2"}, args...)
	if b.KubeVirt != "kubevirt" {
		unshare := []string{"--mount", "--propagation", "private"}
		if os.Getuid() != 0 {
			unshare = append(unshare, "--user", "--map-root-user")
		}
		args = append(append(unshare, "sh", "-c", inPod, "sh", b.KubeVirt, b.Program(name)), args...)
		if name, err = b.link("unshare", name+"-pod"); err != nil {
			return nil, err
		}
	}
	p, out, err := b.startIn(nil, name, args...)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p, nil
}

// answers waits until a program of KubeVirt answers a path, with some text in it.
func (b *Beside) answers(ctx context.Context, p *process, port int, path, text string) error {
	ctx, cancel := context.WithTimeout(ctx, becomesReady)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 5 * time.Second} //nolint:gosec // ours
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("https://127.0.0.1:%d%s", port, path)
	return await(ctx, p, func() error {
		response, err := client.Get(url) //nolint:noctx // it has a limit
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != http.StatusOK || !strings.Contains(string(body), text)) {
			err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
		}
		return err
	})
}

// registerVirtAPI registers virt-api's webhooks by URL, and its APIServices by an ExternalName Service that leads to this machine.
func (b *Beside) registerVirtAPI(ctx context.Context) error {
	bundle, err := os.ReadFile(b.tls(corev1.TLSCertKey))
	if err != nil {
		return err
	}
	ca := base64.StdEncoding.EncodeToString(bundle)
	registered := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": b.KubeVirt, "name": "virt-api"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": int64(b.api.port)}}},
	}}}
	for _, object := range b.installed(configurations...) {
		object = object.DeepCopy()
		hooks, _ := object.Object["webhooks"].([]any)
		for _, hook := range hooks {
			client := hook.(map[string]any)["clientConfig"].(map[string]any)
			service := client["service"].(map[string]any)
			hook.(map[string]any)["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://localhost:%d%v", b.api.balancer.port(), service["path"]), "caBundle": ca}
		}
		registered = append(registered, object)
	}
	wait := []string{"wait", "--for=condition=Available", "--timeout=60s"}
	for _, object := range b.installed(apiServices...) {
		object = object.DeepCopy()
		if err := errors.Join(unstructured.SetNestedField(object.Object, int64(b.api.port), "spec", "service", "port"),
			unstructured.SetNestedField(object.Object, ca, "spec", "caBundle")); err != nil {
			return err
		}
		registered = append(registered, object)
		wait = append(wait, "apiservice/"+object.GetName())
	}
	if err := b.createAll(ctx, registered); err != nil {
		return err
	}
	_, stderr, err := b.Kubectl(ctx, "", wait...)
	return withOutput(err, stderr)
}
