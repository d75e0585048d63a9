package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/kilnvm/kiln/certs"
	"github.com/kilnvm/kiln/test/ports"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// apiServer is the process of the API server of subresources.
type apiServer struct {
	port            int
	certs           string
	health, metrics string
	process         *process // the last one that was started
}

// registerAPIServer registers the API server where the overlay has one: an ExternalName Service leads Kubernetes' API server to a port of this machine. It is
// registered before it runs: the rotation puts its CA into the APIServices.
func (c *Cluster) registerAPIServer(ctx context.Context) error {
	services := c.of(apiServices)
	if len(services) == 0 {
		return nil
	}
	port, err := ports.Free("127.0.0.1")
	if err != nil {
		return err
	}
	c.apiServer = &apiServer{port: port, certs: filepath.Join(c.Dir, "apiserver-certs")}
	objects := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": c.Namespace, "name": certs.APIServerService},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": int64(port)}}},
	}}}
	for _, service := range services {
		service = service.DeepCopy()
		if err := unstructured.SetNestedField(service.Object, int64(port), "spec", "service", "port"); err != nil {
			return err
		}
		objects = append(objects, service)
	}
	return c.applyAll(ctx, objects)
}

// startAPIServer runs the API server as its service account, and waits until Kubernetes' own has found it.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	if c.apiServer == nil {
		return nil
	}
	if c.apiServer.process == nil {
		following, stop := context.WithCancel(context.WithoutCancel(ctx))
		others := c.stopMirror
		c.stopMirror = func() {
			stop()
			if others != nil {
				others()
			}
		}
		go func() {
			_ = mirrors(following, c.Kubeconfig, c.apiServer.certs, func(ctx context.Context, server kubernetes.Interface) error {
				secret, err := server.CoreV1().Secrets(c.Namespace).Get(ctx, certs.APIServerSecret, metav1.GetOptions{})
				if err != nil || len(secret.Data[corev1.TLSCertKey]) == 0 {
					return err
				}
				return lay(c.apiServer.certs, secret, corev1.TLSPrivateKeyKey, corev1.TLSCertKey, corev1.ServiceAccountRootCAKey)
			})
		}()
	}
	kubeconfig, err := c.access(apiServerAccount)
	if err != nil {
		return err
	}
	for _, address := range []*string{&c.apiServer.health, &c.apiServer.metrics} {
		if *address, err = ports.Address("127.0.0.1"); err != nil {
			return err
		}
	}
	args := []string{"--kubeconfig", kubeconfig, "--namespace", c.Namespace, "--kubevirt-namespace", c.KubeVirt, "--config", c.configFile(),
		"--cert-dir", c.apiServer.certs, "--health-probe-bind-address", c.apiServer.health, "--metrics-bind-address", c.apiServer.metrics,
		"--api-bind-address", fmt.Sprintf("127.0.0.1:%d", c.apiServer.port)}
	if c.apiServer.process, _, err = c.startIn(c.Env, "apiserver", args...); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, becomesReady)
	defer cancel()
	if err := await(ready, c.apiServer.process, func() error { return answers("http://" + c.apiServer.health + "/readyz") }); err != nil {
		return err
	}
	_, stderr, err := c.Kubectl(ctx, "", "wait", "--for=condition=Available", "--timeout=60s", "apiservice/"+certs.APIServices[0],
		"apiservice/"+certs.APIServices[1])
	return withOutput(err, stderr)
}

// StopAPIServer ends the API server of subresources. Its registration stays, as when a deployment is down.
func (c *Cluster) StopAPIServer() error { return c.apiServer.process.stop() }

// StartAPIServer brings back what StopAPIServer has ended, at the same address.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.startAPIServer(ctx) }

// APIServerMetrics is the URL of its metrics.
func (c *Cluster) APIServerMetrics() string { return "http://" + c.apiServer.metrics + "/metrics" }

// APIServerPID is its process ID.
func (c *Cluster) APIServerPID() int { return c.apiServer.process.cmd.Process.Pid }

// KillAPIServer kills it, as a node does that loses its power.
func (c *Cluster) KillAPIServer() error { return c.apiServer.process.kill() }
