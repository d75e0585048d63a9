package cgroup2

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/virtlauncher"
)

// ofKubeVirt is a VM whose guest boots its kernel from an image, with a network card that virt-handler connects. The kernel is unpacked, and the report short:
// a guest that is emulated in a machine that is emulated takes minutes to unpack its kernel, and minutes to report all.
const ofKubeVirt = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {kubevirt.io/vm: demo}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %s}
      terminationGracePeriodSeconds: 0
      domain:
        memory: {guest: 256Mi}
        firmware: {kernelBoot: {kernelArgs: '%s', container: {image: %s, kernelPath: %s, initrdPath: %s, imagePullPolicy: IfNotPresent}}}
        devices: {interfaces: [{name: default, masquerade: {}}]}
      networks: [{name: default, pod: {}}]
`

// TestKubeVirt: virt-handler serves on cgroups of version 2, and a guest boots there under virt-launcher. Nothing is left of it.
func TestKubeVirt(t *testing.T) {
	if err := virtlauncher.Incapable(); err != nil {
		t.Skipf("SKIPPED, THIS MACHINE CANNOT RUN GUESTS OF KUBEVIRT: %v", err)
	}
	kubevirt := &virtlauncher.KubeVirt{Root: "../.."}
	n := start(t, virtlauncher.Kubelet, 4096, func(ctx context.Context, n nodes) ([]string, error) {
		kubevirt.Dir = n.dir
		if err := kubevirt.Install(ctx, n.first); err != nil {
			return nil, err
		}
		err := kubevirt.ImportGuests(ctx, n.first)
		return kubevirt.Archives(), err
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(virtlauncher.Logs(context.WithoutCancel(t.Context()), n.first))
		}
	})
	began := time.Now()
	n.eventually("virt-handler takes guests on "+name, func() (string, bool) {
		out := n.kubectl("default", "get", "node", name, "-o", `jsonpath={.metadata.labels.kubevirt\.io/schedulable}`)
		return out, out == "true"
	})
	t.Logf("virt-handler took guests after %s", time.Since(began).Round(time.Second))

	n.kubectl("default", "create", "namespace", "guests")
	began = time.Now()
	n.apply("guests", fmt.Sprintf(ofKubeVirt, name, guest.Cmdline+" kiln.places=1", virtlauncher.KernelImage, virtlauncher.UnpackedPath,
		virtlauncher.InitrdPath))
	n.eventually("the VMI is Running", func() (string, bool) {
		out := n.kubectl("guests", "get", "vmi", "demo", "--ignore-not-found", "-o", "jsonpath={.status.phase}")
		return out, out == "Running"
	})
	t.Logf("from create to phase Running: %s", time.Since(began).Round(time.Second))
	launcher := n.kubectl("guests", "get", "pods", "-l", "kubevirt.io=virt-launcher", "--field-selector", "status.phase=Running", "-o", "name")
	launcher = strings.TrimPrefix(strings.TrimSpace(launcher), "pod/")
	uid := n.kubectl("guests", "get", "pod", launcher, "-o", "jsonpath={.metadata.uid}")
	n.eventually("the guest reports its hardware", func() (string, bool) {
		log := n.kubectl("guests", "logs", launcher, "-c", "guest-console-log")
		report, err := guest.ParseReport(strings.NewReader(log))
		return log[max(0, len(log)-500):], err == nil && len(report.NICs) == 1
	})
	t.Logf("from create to the guest's report: %s", time.Since(began).Round(time.Second))
	seen := n.look()
	cgroup, is := seen.Pods[uid]
	programs := map[string]bool{}
	for _, process := range seen.Processes {
		if process.Pod == uid {
			programs[filepath.Base(process.Program)] = true
		}
	}
	t.Logf("the pod of virt-launcher has %d MiB besides pages of files; it runs %v", cgroup.Memory>>20, programs)
	if !is || cgroup.Memory == 0 || !programs["qemu-system-x86_64"] || !programs["virt-launcher"] {
		t.Errorf("the pod has a cgroup: %v, memory %d, and runs %v; want QEMU and virt-launcher", is, cgroup.Memory, programs)
	}
	n.kubectl("guests", "delete", "vm", "demo", "--timeout=600s")
	n.gone(pod{uid: uid})
	n.ends()
}
