package manifests_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/ports"
)

// rotation runs the real controller with the rights that overlays/rotation gives it, and makes it replace
// its CA while somebody calls the real webhook all the time.
func rotation(t *testing.T, p plane) {
	address := startProcesses(t, p)
	// An API server verifies with the bundle of the configuration; here that is one handshake.
	trusted := func() (*x509.Certificate, error) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundleOf(t, p, "mutatingwebhookconfiguration/kiln-mutating"))
		config := &tls.Config{RootCAs: roots, ServerName: "kiln-webhook.kiln-system.svc", MinVersion: tls.VersionTLS12}
		connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, config)
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0], nil
	}
	var before *x509.Certificate
	eventually(t, "the webhook serves a certificate of its own", func() (ok bool) {
		var err error
		before, err = trusted()
		return err == nil
	})
	if err := before.VerifyHostname("localhost"); err != nil {
		t.Errorf("--certificate-dns-names is not in the certificate: %v", err)
	}
	single := bundleOf(t, p, "validatingwebhookconfiguration/kiln-validating")
	if n := bytes.Count(single, []byte("BEGIN CERTIFICATE")); n != 1 {
		t.Errorf("the first bundle holds %d certificates, want 1", n)
	}

	// Without its key the CA cannot sign any more, so that a new one takes its place.
	p.kubectl(t, "", "patch", "secret", "kiln-webhook-tls", "-n=kiln-system", "--type=merge", `-p={"data":{"ca.key":null}}`)
	eventually(t, "a new certificate is served, and each handshake until then succeeds", func() bool {
		served, err := trusted()
		if err != nil {
			t.Errorf("while the CA is replaced: %v", err)
			return true
		}
		return !served.Equal(before)
	})
	for _, name := range []string{"mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating"} {
		both := bundleOf(t, p, name)
		if n := bytes.Count(both, []byte("BEGIN CERTIFICATE")); n != 2 || !bytes.HasSuffix(both, single) {
			t.Errorf("%s holds %d certificates, want the new CA and after it the old one:\n%s", name, n, both)
		}
	}
}

// bundleOf is the CA bundle of all webhooks of a configuration, PEM.
func bundleOf(t *testing.T, p plane, name string) []byte {
	t.Helper()
	out := p.kubectl(t, "", "get", name, "-o", `jsonpath={range .webhooks[*]}{.clientConfig.caBundle}{"\n"}{end}`)
	all := strings.Split(strings.TrimSpace(out), "\n")
	for _, one := range all {
		if one != all[0] {
			t.Errorf("the webhooks of %s have different bundles", name)
		}
	}
	bundle, err := base64.StdEncoding.DecodeString(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// startProcesses gives the address of a webhook that runs as its own service account, beside a controller that signs for it.
func startProcesses(t *testing.T, p plane) string {
	t.Helper()
	dir := t.TempDir()
	if err := cluster.Build(t.Context(), "..", dir, "webhook", "controller"); err != nil {
		t.Fatal(err)
	}
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certificates := filepath.Join(dir, "certs")
	ctx, stop := context.WithCancel(t.Context())
	mirrored := make(chan error)
	go func() { mirrored <- cluster.Mirror(ctx, p.Kubeconfig, "kiln-system", certificates) }()
	t.Cleanup(func() {
		stop()
		if err := <-mirrored; err != nil {
			t.Error(err)
		}
	})
	startProcess(t, filepath.Join(dir, "controller"), "--kubeconfig", p.Users[controllerAccount], "--health-probe-bind-address", "0",
		"--runtime=node", "--namespace", "kiln-system", "--rotate-certificates", "--certificate-dns-names", "localhost", "--cert-dir", certificates)
	startProcess(t, filepath.Join(dir, "webhook"), "--kubeconfig", p.Users[webhookAccount], "--health-probe-bind-address", "0",
		"--namespace", "kiln-system", "--webhook-bind-address", address, "--cert-dir", certificates)
	return address
}

// startProcess runs a program until the test ends.
func startProcess(t *testing.T, binary string, args ...string) {
	t.Helper()
	log, err := os.Create(binary + ".log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // should this process be killed before its clean-up
	// The death signal is sent when the thread ends that started the process, so that this one stays until the test has ended.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		logged, _ := os.ReadFile(log.Name())
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(binary), err)
		}
		if strings.Contains(string(logged), "is forbidden") {
			t.Errorf("%s: its role lacks a right", filepath.Base(binary))
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(binary), logged)
		}
	})
}
