package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// process is a program that runs until it is stopped.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   string
	ended chan struct{}
}

// startIn runs one of our programs with its errors in a log, and env added to its environment. It dies when this process does: its standard input ends
// then, and the kernel kills it.
func (c *Cluster) startIn(env []string, name string, args ...string) (*process, io.Reader, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	p := &process{log: filepath.Join(c.Dir, fmt.Sprintf("%s-%d.log", name, len(c.running))), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(c.Program(name), args...)
	p.cmd.Dir, p.cmd.Stderr = c.Root, log
	garbage, err := c.Garbage(name)
	if err != nil {
		return nil, nil, err
	}
	p.cmd.Env = slices.Concat(os.Environ(), []string{"KUBECONFIG=" + c.Kubeconfig}, garbage, env)
	// A process group of its own: Ctrl-C is for us, and we end the others in their order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	p.cmd.Stdout = in
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread ends that started the child, so that this one stays.
		runtime.LockOSThread()
		err := p.cmd.Start()
		in.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its log
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, nil, err
	}
	c.running = append(c.running, p)
	return p, out, nil
}

// Garbage returns the variables GOGC and GOMEMLIMIT as the Deployment of a program sets them. What it does not set has Go's default: 'make test' sets GOGC for
// its own processes.
func (c *Cluster) Garbage(program string) ([]string, error) {
	for _, object := range c.of([]string{"Deployment"}) {
		var deployment appsv1.Deployment
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return nil, err
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if container.Name != program {
				continue
			}
			percent := ""
			if at := slices.IndexFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == "GOGC" }); at >= 0 {
				percent = container.Env[at].Value
			}
			mebibytes := container.Resources.Limits.Memory().Value() >> 20 // as kubelet fills LIMIT_MIB in
			return []string{"GOGC=" + percent, fmt.Sprintf("GOMEMLIMIT=%d000000B", mebibytes)}, nil
		}
	}
	return []string{"GOGC="}, nil
}

// patience is how long a process may take to end after it was asked to.
const patience = 30 * time.Second

// stop ends the process by the end of its standard input and SIGTERM. One that still runs after patience is killed, which is an error with the
// end of its log. A process that has ended is no error.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s had to be killed:\n%s", filepath.Base(p.cmd.Path), p.tail())
	}
}

// tail is the end of its log.
func (p *process) tail() string {
	const most = 4000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Close ends everything, the last started first. In a cluster of the user's, our webhook configurations are removed first, or
// no VM could be written in it any more.
func (c *Cluster) Close() error {
	var errs []error
	if c.registered && !c.own {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		errs = append(errs, c.unregister(ctx))
	}
	if c.balancer != nil {
		errs = append(errs, c.balancer.listener.Close())
	}
	if c.stopMirror != nil {
		c.stopMirror()
	}
	c.registered, c.balancer, c.stopMirror = false, nil, nil
	for i := len(c.running) - 1; i >= 0; i-- {
		errs = append(errs, c.running[i].stop())
	}
	c.running = nil
	return errors.Join(errs...)
}

// Running are the process IDs of the programs that run, by program and its number in the order of their start.
func (c *Cluster) Running() map[string]int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	running := map[string]int{}
	for _, p := range c.running {
		select {
		case <-p.ended:
		default:
			running[strings.TrimSuffix(filepath.Base(p.log), ".log")] = p.cmd.Process.Pid
		}
	}
	return running
}

// Logs are the ends of all logs, for a test that failed.
func (c *Cluster) Logs() string {
	var all bytes.Buffer
	for _, p := range c.running {
		fmt.Fprintf(&all, "== %s\n%s\n", filepath.Base(p.log), p.tail())
	}
	return all.String()
}

// run runs a program to its end.
// Both outputs are returned with an error too, because the error contains neither.
func (c *Cluster) run(ctx context.Context, program, input string, args ...string) (string, string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Dir = c.Root
	cmd.Stdin = bytes.NewBufferString(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return stdout.String(), stderr.String(), err
}
