package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kilnvm/kiln/test/controlplane/process"
)

// startTimeout is far beyond the seconds that a start takes: a busy machine is no error. With four nodes on two cores three minutes were too few.
const startTimeout = 10 * time.Minute

// report is what Inside writes when the node is ready.
type report struct {
	// Milliseconds that it took, by the step that was reached.
	Milliseconds map[string]int64
}

// Inside runs the programs of a node. It reads a Spec, writes a report when pods can run, and stops when its input ends, or when one of
// the programs does. Call it on the main goroutine, see process.Group.
func Inside(in io.Reader, out io.Writer) error {
	unix.CloseOnExec(listenerFD) // the programs must not inherit what is not theirs
	decoder := json.NewDecoder(in)
	var spec Spec
	if err := decoder.Decode(&spec); err != nil {
		return fmt.Errorf("reading what node this is: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	n := &inside{Spec: spec, group: process.NewGroup(spec.Dir), began: time.Now(), report: report{Milliseconds: map[string]int64{}}}
	err := n.startPrograms(ctx)
	if err == nil {
		err = json.NewEncoder(out).Encode(n.report)
	}
	if err == nil {
		err = n.watchPrograms(ctx)
	}
	return errors.Join(err, n.stopPods())
}

// watchPrograms returns when the context ends, or when a program has ended that is not to be started again.
func (n *inside) watchPrograms(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-n.group.Ended:
			if !n.Restart {
				return p.Died()
			}
			again, err := n.group.Again(p)
			if err != nil {
				return err
			}
			if p == n.kubelet {
				n.kubelet = again
			}
		}
	}
}

// inside is a node, seen from its namespaces.
type inside struct {
	Spec
	group   *process.Group
	api     *kubernetes.Clientset
	kubelet *process.Process
	began   time.Time
	report  report
}

func (n *inside) startPrograms(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := errors.Join(unix.Sethostname([]byte(n.Name)), mountFilesystems(), n.mountKubelet()); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", n.adminKubeconfig())
	if err != nil {
		return err
	}
	config.Timeout = 5 * time.Second
	if n.api, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	var programs []program
	if n.isFirst() {
		if err := forwardListener(listenerFD, nodeAddress(1).String()+":"+apiPort); err != nil {
			return err
		}
		programs = n.planePrograms(n.api)
	}
	if err := n.startContainers(ctx); err != nil {
		return err
	}
	for _, p := range append(programs, n.agentPrograms()...) {
		if err := n.runProgram(ctx, p); err != nil {
			return err
		}
	}
	return n.awaitReady(ctx, "ready", func(ctx context.Context) bool { return n.isReady(ctx, n.api, n.began) })
}

// startContainers starts containerd without the pods of an earlier node, unless it was this one.
func (n *inside) startContainers(ctx context.Context) error {
	if err := n.runProgram(ctx, n.containerdProgram()); err != nil || n.Again {
		return err
	}
	runtime, err := n.connectRuntime(ctx)
	if err != nil {
		return err
	}
	return removeSandboxes(ctx, runtime)
}

func (n *inside) runProgram(ctx context.Context, p program) error {
	started, err := n.group.Start(p.path, p.args)
	if err != nil {
		return err
	}
	if started.Name == "kubelet" {
		n.kubelet = started
	}
	if p.ready == nil {
		return nil
	}
	return n.awaitReady(ctx, started.Name, p.ready)
}

// awaitReady notes how long it took from the start of the node.
func (n *inside) awaitReady(ctx context.Context, what string, ready func(context.Context) bool) error {
	if err := n.group.Await(ctx, func() bool { return ready(ctx) }); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	n.report.Milliseconds[what] = time.Since(n.began).Milliseconds()
	return nil
}

// stopPods ends the pods and leaves the rest to the end of the namespaces: what the programs could save is thrown away anyhow.
func (n *inside) stopPods() error {
	if n.kubelet == nil {
		return nil
	}
	n.kubelet.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), answer)
	defer cancel()
	runtime, err := n.connectRuntime(ctx)
	if err != nil {
		return err
	}
	return removeSandboxes(ctx, runtime)
}
