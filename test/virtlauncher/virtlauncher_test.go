package virtlauncher

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
)

// shared is the first node of all tests, nodes are all of them, and installed is KubeVirt on them; nil where the machine cannot have them.
var (
	shared    *node.Node
	nodes     []*node.Node
	installed *KubeVirt
)

// startTimeout bounds the start. KubeVirt's programs take a quarter of an hour where nothing of them is compiled.
const startTimeout = 40 * time.Minute

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "virtlauncher:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if Incapable() != nil {
		return m.Run(), nil // each test says why it is skipped
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := cluster.Dir("kiln-virtlauncher")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if shared, err = node.Run(ctx, node.Options{Kubelet: Kubelet}); err != nil {
		return 0, err
	}
	nodes, installed = []*node.Node{shared}, &KubeVirt{Root: "../..", Dir: dir}
	if err = installed.Install(ctx, shared); err == nil {
		err = installed.ImportGuests(ctx, shared)
	}
	if err == nil {
		code = m.Run()
	}
	if code != 0 || err != nil {
		fmt.Fprintln(os.Stderr, Logs(context.Background(), shared), KilnLogs(context.Background(), shared))
	}
	if failed := shared.Close(); err == nil {
		err = failed
	}
	return code, err
}

// require skips a test where the machine cannot run guests of KubeVirt.
func require(t *testing.T) {
	t.Helper()
	if err := Incapable(); err != nil {
		t.Skipf("SKIPPED, THIS MACHINE CANNOT RUN GUESTS OF KUBEVIRT: %v", err)
	}
}

// machine is a VM whose guest boots its kernel from an image, and has a disk of another image and a network card, which virt-handler connects with a tap device
// and rules of nftables. The guest asks for its address by DHCP, and answers HTTP.
var machine = fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: Halted
  template:
    metadata: {labels: {kubevirt.io/vm: demo}}
    spec:
      terminationGracePeriodSeconds: 30
      domain:
        memory: {guest: 256Mi}
        firmware: {kernelBoot: {kernelArgs: %s, container: {image: %s, kernelPath: %s, initrdPath: %s, imagePullPolicy: IfNotPresent}}}
        devices: {disks: [{name: root, serial: of-kubevirt, disk: {bus: virtio}}], interfaces: [{name: default, masquerade: {}}]}
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, containerDisk: {image: %s, imagePullPolicy: IfNotPresent}}]
`, "'"+guest.Cmdline+" kiln.serve=80 kiln.grow=1'", KernelImage, KernelPath, InitrdPath, DiskImage)

// TestGuest: virt-controller makes the pod of a VM, virt-launcher of this pod runs the guest, and virt-handler sees and writes it. virtctl starts, pauses,
// restarts and stops it, each with what the guest itself reports. After a restart the guest has the same CPU, DMI and boot devices. Nothing of it is left after
// its deletion. All of it is the same beside Kiln.
func TestGuest(t *testing.T) {
	both(t, func(g space) {
		g.create(machine)
		g.virtctl("start", "demo")
		first := g.runs("demo", "")
		before := g.judge(first)
		g.treated("demo", true)
		pods := []string{g.podUID(first)}

		g.pause("demo")
		g.virtctl("restart", "demo")
		second := g.runs("demo", string(first.UID))
		pods = append(pods, g.podUID(second))
		if after := g.judge(second); after.DMI["product_uuid"] != before.DMI["product_uuid"] || after.Disks[0].PCI != before.Disks[0].PCI {
			g.Errorf("the guest with UUID %s and a disk at %s has UUID %s and its disk at %s after a restart",
				before.DMI["product_uuid"], before.Disks[0].PCI, after.DMI["product_uuid"], after.Disks[0].PCI)
		} else {
			g.sameMachine(before, after)
		}

		g.virtctl("stop", "demo")
		g.gone("vmi,pods")
		g.virtctl("start", "demo")
		pods = append(pods, g.podUID(g.runs("demo", string(second.UID))))
		g.kubectl("delete", "vm", "demo", "--timeout=120s")
		g.gone("vm,vmi,pods")
		g.eventually("the nodes have nothing of the pods any more", func() (bool, any) {
			programs, folders := g.traces(pods...)
			return len(programs) == 0 && len(folders) == 0, append(programs, folders...)
		})
	})
}
