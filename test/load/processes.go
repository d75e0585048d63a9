package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kilnvm/kiln/test/ports"
)

// buildProgram builds this command, so that a test can start it as a process of its own too.
func buildProgram(ctx context.Context, root, dir string) (string, error) {
	path := filepath.Join(dir, "bin", "load")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./test/load")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building test/load: %w\n%s", err, out)
	}
	return path, nil
}

// selfProcess is this command as a process with another task: the webhooks or the controller of the peer. It runs until it is stopped.
type selfProcess struct {
	pid  int
	stop func() error
}

// startSelf starts this command with these arguments, and returns the first line that it prints.
func (b *bench) startSelf(ctx context.Context, args ...string) (process *selfProcess, line string, err error) {
	self, err := buildProgram(ctx, b.Root, b.Dir)
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, "", err
	}
	process = &selfProcess{cmd.Process.Pid, sync.OnceValue(func() error { return errors.Join(stdin.Close(), cmd.Wait()) })}
	if line, err = bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, "", fmt.Errorf("%s: %w: %s", args[0], errors.Join(err, process.stop()), stderr.String())
	}
	return process, strings.TrimSpace(line), nil
}

// clientTrusting returns an HTTP client that trusts one CA, PEM.
func clientTrusting(ca []byte) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate in the PEM data of a CA")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}, nil
}

func keyPair(certificate, key []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}, err
}

// watched is a process of Kiln behind a proxy of its own.
type watched struct {
	*proxy
	cmd             *exec.Cmd
	log             string
	health, metrics string
	begun           time.Time
	ended           chan struct{}
}

// startWatched starts the webhook or the controller as its service account.
func (b *bench) startWatched(ctx context.Context, name string, more ...string) (*watched, error) {
	account, err := b.Access("kiln-" + name)
	if err != nil {
		return nil, err
	}
	w := &watched{log: filepath.Join(b.Dir, "watched-"+name+".log"), ended: make(chan struct{})}
	if w.proxy, err = startProxy(b.config); err != nil {
		return nil, err
	}
	through := filepath.Join(b.Dir, "watched-"+name+".kubeconfig")
	if err := w.writeKubeconfig(account, through); err != nil {
		return nil, errors.Join(err, w.proxy.close())
	}
	if w.health, err = ports.Address("127.0.0.1"); err == nil {
		w.metrics, err = ports.Address("127.0.0.1")
	}
	log, err2 := os.Create(w.log)
	if err := errors.Join(err, err2); err != nil {
		return nil, errors.Join(err, w.proxy.close())
	}
	defer log.Close()
	w.cmd = exec.Command(b.Program(name), append([]string{"--kubeconfig", through, "--config", filepath.Join(b.Dir, "configuration.yaml"),
		"--namespace", b.Namespace, "--kubevirt-namespace", b.KubeVirt, "--health-probe-bind-address", w.health, "--metrics-bind-address", w.metrics}, more...)...)
	garbage, err := b.Garbage(name)
	if err != nil {
		return nil, errors.Join(err, w.proxy.close())
	}
	w.cmd.Env, w.cmd.Stderr = append(os.Environ(), garbage...), log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	w.begun = time.Now()
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(err, w.proxy.close())
	}
	go func() {
		_ = w.cmd.Wait() // how it ended is in its log
		close(w.ended)
	}()
	return w, w.awaitCondition(ctx, func() bool { return hasAnswered("http://" + w.health + "/readyz") })
}

// awaitCondition polls until a condition holds. It fails with the end of the log if the process ends.
func (w *watched) awaitCondition(ctx context.Context, holds func() bool) error {
	for begun := time.Now(); !holds(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.ended:
			text, err := os.ReadFile(w.log)
			return errors.Join(fmt.Errorf("the process has ended:\n%s", text[max(0, len(text)-4000):]), err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("nothing after %s", patience)
		}
	}
	return nil
}

func (w *watched) stop() error {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.ended:
	case <-time.After(time.Minute):
		_ = w.cmd.Process.Kill()
		<-w.ended
	}
	return w.close()
}

func hasAnswered(url string) bool {
	response, err := http.Get(url) //nolint:gosec,noctx // our own process on this machine
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (w *watched) statusValue(name string) int64 { return processStatus(w.cmd.Process.Pid, name) }

// processStatus returns a field of /proc/PID/status in bytes, and 0 if the process has ended: VmHWM is the largest resident set so far, VmRSS the current one.
func processStatus(pid int, name string) int64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		if text, found := strings.CutPrefix(line, name+":"); found {
			kibibytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}

// peakMemory returns VmHWM of the largest webhook and of the largest controller of the variant that run, in bytes; 0 if none runs.
func (b *bench) peakMemory() (webhook, controller int64) {
	for name, pid := range b.Running() {
		switch program, _, _ := strings.Cut(name, "-"); program {
		case "webhook":
			webhook = max(webhook, processStatus(pid, "VmHWM"))
		case "controller":
			controller = max(controller, processStatus(pid, "VmHWM"))
		}
	}
	if b.webhooks != nil {
		webhook = processStatus(b.webhooks.pid, "VmHWM")
	}
	if b.controller != nil {
		controller = processStatus(b.controller.pid, "VmHWM")
	}
	return webhook, controller
}

// sumMetric returns the sum of the samples of /metrics whose line begins so; -1 if it cannot be read.
func (w *watched) sumMetric(prefix string) float64 {
	response, err := http.Get("http://" + w.metrics + "/metrics") //nolint:noctx // our own process on this machine
	if err != nil {
		return -1
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return -1
	}
	sum := 0.0
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err == nil {
			sum += value
		}
	}
	return sum
}
