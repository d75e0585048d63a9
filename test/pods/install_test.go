package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/installation"
	"github.com/kilnvm/kiln/test/node"
)

// shared is the node of all tests, with Kiln in it; each test has a namespace of its own. It is nil where the machine cannot have one.
var shared *node.Node

// Images of guests. The default pull policy of a tag other than 'latest' asks no registry.
const (
	kernelImage = "docker.io/library/guest-kernel:1"
	// agentImage is for tests of 'make nightly': its guest may have an agent.
	agentImage = "docker.io/library/guest-agent:1"
	// diskImage is a containerDisk, from which the test guest boots by itself.
	diskImage = "docker.io/library/guest-disk:1"
)

// kubelet gives containers that ask for whole CPUs these CPUs alone; one CPU of each node is kept for all others. Containers that were killed start again
// soon: kubelet's own bound is five minutes. Waves of guests stand beside as many pods that do nothing, which is more than kubelet's usual 110. No server has
// the address of clusterDNS; without one, kubelet writes an event about each pod at each look at it.
const kubelet = `cpuManagerPolicy: static
maxPods: 250
clusterDNS: [10.96.0.10]
cpuManagerReconcilePeriod: 1s
systemReserved: {cpu: 500m}
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 1s}`

// installed is Kiln on the shared node.
var installed *installation.Installation

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// startTimeout bounds the start of node and Kiln, with what must be built and unpacked for them on a machine that has nothing yet.
const startTimeout = 25 * time.Minute

func runAll(m *testing.M) (code int, err error) {
	if node.Incapable() != nil {
		return m.Run(), nil // each test says why it is skipped
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := cluster.Dir("kiln-pods")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	giveBack, err := reservePages()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	if shared, err = node.Run(ctx, node.Options{Restart: os.Getenv("NIGHTLY") != "", Kubelet: kubelet}); err != nil {
		return 0, err
	}
	if installed, err = images(ctx, dir); err == nil {
		err = installed.Install(ctx, shared)
	}
	if err == nil {
		code = m.Run()
	}
	if code != 0 || err != nil {
		fmt.Fprintln(os.Stderr, installation.Logs(context.Background(), shared))
	}
	if failed := shared.Close(); err == nil {
		err = failed
	}
	return code, err
}

// images makes the images of the guests.
func images(ctx context.Context, dir string) (*installation.Installation, error) {
	raw, err := guest.BuildDisk(dir)
	if err != nil {
		return nil, err
	}
	disk := filepath.Join(dir, "disk.qcow2")
	if out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-O", "qcow2", raw, disk).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("qemu-img: %w: %s", err, out)
	}
	kernel := map[string]string{"boot/vmlinuz": filepath.Join(dir, "boot/vmlinuz"), "boot/initrd": filepath.Join(dir, "boot/initrd")}
	all := map[string]map[string]string{kernelImage: kernel, diskImage: {"disk/disk.qcow2": disk}}
	if os.Getenv("NIGHTLY") != "" {
		withAgent := maps.Clone(kernel)
		withAgent["boot/initrd"] = filepath.Join(dir, "initrd-agent")
		initrd, err := os.ReadFile(kernel["boot/initrd"])
		if err == nil {
			err = os.WriteFile(withAgent["boot/initrd"], initrd, 0o644)
		}
		if err == nil {
			err = guest.AddAgent(withAgent["boot/initrd"])
		}
		if err != nil {
			return nil, err
		}
		all[agentImage] = withAgent
	}
	return &installation.Installation{Root: "../..", Dir: dir, StateClass: stateClass, Images: all}, nil
}
