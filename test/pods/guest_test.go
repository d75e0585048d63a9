package pods

import (
	"fmt"
	"strings"
	"testing"
)

// vm is a VirtualMachine that boots the test guest: a disk of an image, a claim of each mode, and a seed of a Secret. The mark is what the guest writes
// to its disks after it has said what they hold.
func vm(name, mark string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %[1]s}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 60
      domain:
        memory: {guest: 192Mi}
        firmware:
          kernelBoot:
            kernelArgs: quiet panic=-1 cryptomgr.notests kiln.mark=%[2]s kiln.serve=8080
            container: {image: %[3]s, kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}
        devices:
          rng: {}
          disks: [{name: image, disk: {bus: virtio}}, {name: block, disk: {bus: virtio}}, {name: file, disk: {bus: virtio}}, {name: seed, disk: {bus: virtio}}]
          interfaces: [{name: default, masquerade: {}, ports: [{port: 8080}]}]
      networks: [{name: default, pod: {}}]
      volumes:
      - {name: image, containerDisk: {image: %[4]s}}
      - {name: block, persistentVolumeClaim: {claimName: block}}
      - {name: file, persistentVolumeClaim: {claimName: file}}
      - {name: seed, cloudInitNoCloud: {secretRef: {name: seed}}}
`, name, mark, kernelImage, diskImage)
}

const seed = `
apiVersion: v1
kind: Secret
metadata: {name: seed}
stringData: {userdata: "said by a Secret"}
`

// TestGuestIsAPod: a guest boots in a pod of a namespace that enforces the profile 'restricted', sees its disks, is reached by a Service, and finds
// hardware and disks again in its next pod. When it is deleted nothing of it is left.
func TestGuestIsAPod(t *testing.T) {
	n := newTenant(t, "guest")
	n.blockClaim("block")
	n.fileClaim("file")
	n.apply(seed)
	n.apply("apiVersion: v1\nkind: Service\nmetadata: {name: demo}\nspec: {selector: {app: demo}, ports: [{port: 80, targetPort: 8080}]}\n")
	n.apply(vm("demo", "first"))
	n.phase("demo", "Running")
	log := n.console("demo", "KILN-SERVES guest at ")
	for _, want := range []string{
		"KILN-MARK vda 0 of the image", "KILN-MARK vdb 0 \n", "KILN-MARK vdc 0 \n", "KILN-SEED vdd said by a Secret", "KILN-MARKED first", "KILN-REPORT-END",
	} {
		if !strings.Contains(strings.ReplaceAll(log, "\r", ""), want) {
			t.Errorf("the console does not say %q:\n%s", want, log)
		}
	}
	ip := n.kubectl("get", "pod", "guest-demo", "-o", "jsonpath={.status.podIP}")
	if said := n.kubectl("get", "vmi", "demo", "-o", "jsonpath={.status.interfaces[0].ipAddress}"); said != ip || ip == "" {
		t.Errorf("the VMI's address is '%s', its pod's '%s'", said, ip)
	}
	url := "http://" + n.kubectl("get", "service", "demo", "-o", "jsonpath={.spec.clusterIP}")
	n.eventually("the Service leads to the guest", func() (string, bool) {
		body, err := n.fetch(url)
		return fmt.Sprint(body, err), err == nil && strings.Contains(body, "guest at "+ip)
	})
	// The digest has the kernel's arguments in it, which the test changes.
	const kept = "jsonpath={.spec.hardware.devices}{.spec.hardware.macs}{.spec.hardware.uuid}{.spec.hardware.serial}{.spec.hardware.machine}"
	hardware := n.kubectl("get", "guesthardware", "demo", "-o", kept)
	first := n.kubectl("get", "pod", "guest-demo", "-o", "jsonpath={.metadata.uid}")

	// The guest is stopped by its power button: it is not killed.
	n.apply(vm("demo", "second"))
	n.kubectl("delete", "vmi", "demo", "--timeout=180s")
	n.eventually("a second pod is made", func() (string, bool) {
		uid, _ := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", "pod", "guest-demo", "-o", "jsonpath={.metadata.uid}")
		return uid, uid != first && len(uid) == len(first)
	})
	log = n.console("demo", "KILN-MARKED second")
	for _, want := range []string{"KILN-MARK vda 0 of the image", "KILN-MARK vdb 0 first", "KILN-MARK vdc 0 first"} {
		if !strings.Contains(log, want) {
			t.Errorf("after a restart the console does not say %q:\n%s", want, log)
		}
	}
	if now := n.kubectl("get", "guesthardware", "demo", "-o", kept); now != hardware {
		t.Errorf("the hardware differs after a restart:\n%s\n%s", hardware, now)
	}
	n.kubectl("delete", "vm", "demo", "--timeout=180s")
	n.gone("vm,vmi,pods,guestpods,guesthardwares,roles,rolebindings")
	if accounts := n.kubectl("get", "serviceaccounts", "-o", "name"); strings.Contains(accounts, "guest-") {
		t.Errorf("service accounts are left: %s", accounts)
	}
}
