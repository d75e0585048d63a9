package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/pod"
)

// seed returns the Secret with user data. test/guest defines the words that begin with 'kiln.'.
func seed(words string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: seed}\nstringData: {userdata: said by a Secret %s}\n", words)
}

// restart deletes a VMI, whose guest powers off, and waits for the pod of the next one. kubectl does not wait for the end of the first: where the next one is
// there before kubectl watches, it would wait for the end of that one.
func (n *tenant) restart(vm string) {
	n.Helper()
	first := n.kubectl("get", "pod", "guest-"+vm, "-o", "jsonpath={.metadata.uid}")
	n.kubectl("delete", "vmi", vm, "--wait=false")
	n.eventually("a second pod is made", func() (string, bool) {
		uid, _ := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", "pod", "guest-"+vm, "-o", "jsonpath={.metadata.uid}")
		return uid, uid != first && len(uid) == len(first)
	})
}

// TestGuestIsAPod: a guest boots from its containerDisk, in a pod of a namespace that enforces the profile 'restricted'. It sees its disks, is reached by a
// Service, and finds hardware and disks again in its next pod. When it is deleted nothing of it is left.
func TestGuestIsAPod(t *testing.T) {
	n := newTenant(t, "guest")
	n.blockClaim("block")
	n.fileClaim("file")
	n.apply(seed("kiln.mark=first kiln.serve=8080"))
	n.apply("apiVersion: v1\nkind: Service\nmetadata: {name: demo}\nspec: {selector: {app: demo}, ports: [{port: 80, targetPort: 8080}]}\n")
	n.apply(vm("demo"))
	n.phase("demo", "Running")
	log := n.console("demo", "KILN-SERVES guest at ")
	for _, want := range []string{
		"KILN-MARK vda 0 of the image", "KILN-MARK vdb 0 \n", "KILN-MARK vdc 0 \n", "KILN-SEED vdd said by a Secret", "KILN-MARKED first", "KILN-REPORT-END",
	} {
		if !strings.Contains(strings.ReplaceAll(log, "\r", ""), want) {
			t.Errorf("the console does not say %q:\n%s", want, log)
		}
	}
	disk, err := os.Stat(filepath.Join(shared.Dir, n.namespace+"-file", pod.DiskFile))
	if err != nil || disk.Size() != 8<<20 {
		t.Errorf("the disk on the claim with a file system is not as large as the claim, 8 MiB: %+v, %v", disk, err)
	}
	ip := n.kubectl("get", "pod", "guest-demo", "-o", "jsonpath={.status.podIP}")
	if reported := n.kubectl("get", "vmi", "demo", "-o", "jsonpath={.status.interfaces[0].ipAddress}"); reported != ip || ip == "" {
		t.Errorf("the VMI's address is '%s', its pod's '%s'", reported, ip)
	}
	url := "http://" + n.kubectl("get", "service", "demo", "-o", "jsonpath={.spec.clusterIP}")
	n.eventually("the Service leads to the guest", func() (string, bool) {
		body, err := n.fetch(url)
		return fmt.Sprint(body, err), err == nil && strings.Contains(body, "guest at "+ip)
	})
	const kept = "jsonpath={.spec.hardware}"
	hardware := n.kubectl("get", "guesthardware", "demo", "-o", kept)

	// The guest is stopped by its power button: it is not killed.
	n.apply(seed("kiln.mark=second"))
	n.restart("demo")
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
