package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/installation"
	"github.com/kilnvm/kiln/test/nightly"
)

// Images of a whole Debian.
const (
	debianKernelImage = "docker.io/library/debian-kernel:1"
	debianDiskImage   = "docker.io/library/debian-disk:1"
)

// importDebian makes the images of a Debian, and imports them into the shared node.
func importDebian(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	built, err := guest.BuildDebian(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for image, content := range map[string]map[string]string{
		debianKernelImage: {"boot/vmlinuz": built.Kernel, "boot/initrd": built.Initramfs},
		debianDiskImage:   {"disk/disk.qcow2": built.Disk},
	} {
		file, err := installation.WriteImage(dir, image, content)
		if err != nil {
			t.Fatal(err)
		}
		importEverywhere(t, file)
	}
}

// debianUserData configures a guest whose host key the test knows. Beside the user of Debian's own configuration it has user demo, whose password is locked.
// Package locales is not installed. sudo resolves the name of the host, and would wait for DNS.
const debianUserData = `#cloud-config
locale: false
manage_etc_hosts: true
ssh_pwauth: true
users:
- default
- {name: demo, shell: /bin/bash, sudo: "ALL=(ALL) NOPASSWD:ALL"}
ssh_keys:
  ed25519_public: %s
  ed25519_private: |
%s
`

// renderDebianVM returns a VirtualMachine that boots a Debian from its containerDisk. Credentials are YAML of accessCredentials, and source is the type of the
// volume with the user data.
func renderDebianVM(name, source string, host keyPair, credentials string) string {
	userData := fmt.Sprintf(debianUserData, host.public, indented(host.private, 4))
	return virtualMachine(name, only("node-1")+`
terminationGracePeriodSeconds: 180
accessCredentials:
`+indented(credentials, 0)+`
domain:
  cpu: {cores: 2, model: qemu64}
  memory: {guest: 768Mi}
  firmware: {kernelBoot: {kernelArgs: root=/dev/vda rw console=ttyS0 no_timer_check,
    container: {image: `+debianKernelImage+`, kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}}}
  devices:
    rng: {}
    disks:
    - {name: image, disk: {bus: virtio}}
    - {name: seed, disk: {bus: virtio}}
    interfaces: [{name: default, masquerade: {}, ports: [{port: 22}]}]
`+podNetwork+`
volumes:
- {name: image, containerDisk: {image: `+debianDiskImage+`}}
- name: seed
  `+source+`:
    userData: |
`+indented(userData, 6)+`
`)
}

const debianSecrets = `
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {me: %s}
---
apiVersion: v1
kind: Secret
metadata: {name: more-keys}
stringData: {me: %s}
---
apiVersion: v1
kind: Secret
metadata: {name: passwords}
stringData: {demo: correct horse}
`

// TestDebianGuest: Debian's cloud-init gives the default user the SSH key of a Secret, by either data source. Debian's guest agent gives user demo the key of
// another Secret, and a password, which changes with its Secret. Each of them logs in by SSH, and nothing else does.
func TestDebianGuest(t *testing.T) {
	nightly.Only(t) // a whole Debian is installed, and boots twice
	n := newTenant(t, "debian")
	began := time.Now()
	report := func(step string) {
		t.Logf("%5.1f s until %s", time.Since(began).Seconds(), step)
		began = time.Now()
	}
	importDebian(t)
	report("Debian is installed, and its images are imported")

	host, byCloudInit, byAgent := newKeyPair(t), newKeyPair(t), newKeyPair(t)
	n.apply(fmt.Sprintf(debianSecrets, byCloudInit.public, byAgent.public))
	n.apply(renderDebianVM("one", "cloudInitNoCloud", host, `
- sshPublicKey: {source: {secret: {secretName: keys}}, propagationMethod: {noCloud: {}}}
- sshPublicKey: {source: {secret: {secretName: more-keys}}, propagationMethod: {qemuGuestAgent: {users: [demo]}}}
- userPassword: {source: {secret: {secretName: passwords}}, propagationMethod: {qemuGuestAgent: {}}}
`))
	n.awaitCloudInit("one", "DataSourceNoCloud")
	report("cloud-init has finished")
	one := n.sshServer("one", host.PublicKey())
	n.checkCloudInit("one", one, byCloudInit)
	report("the key of cloud-init has logged in")

	n.kubectl("wait", "vmi/one", "--for=condition=AccessCredentialsSynchronized", "--timeout=300s")
	report("the credentials are synchronized")
	for what, by := range map[string]ssh.AuthMethod{"key": ssh.PublicKeys(byAgent), "password": ssh.Password("correct horse")} {
		if out := n.mustRunAs(one, "demo", by, "whoami; sudo whoami"); out != "demo\nroot\n" {
			t.Errorf("demo, by the %s of the guest agent, is %q", what, out)
		}
	}
	n.checkRefusal(one, "demo", ssh.PublicKeys(byCloudInit), "the key of cloud-init")
	n.checkRefusal(one, "debian", ssh.PublicKeys(byAgent), "the key of the guest agent")
	report("key and password of the guest agent have logged in")

	n.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: passwords}\nstringData: {demo: battery staple}\n")
	n.eventually("the new password logs in", func() (string, bool) {
		out, err := one.runAs(n.Context(), "demo", ssh.Password("battery staple"), "whoami")
		return fmt.Sprint(out, err), err == nil && out == "demo\n"
	})
	n.checkRefusal(one, "demo", ssh.Password("correct horse"), "the old password")
	report("a new password has logged in")

	if name := n.kubectl("get", "vmi", "one", "-o", "jsonpath={.status.guestOSInfo.prettyName}"); !strings.HasPrefix(name, "Debian GNU/Linux ") {
		t.Errorf("the guest's system is '%s'", name)
	}
	ip := n.kubectl("get", "pod", "guest-one", "-o", "jsonpath={.status.podIP}")
	if all := n.kubectl("get", "vmi", "one", "-o", "jsonpath={.status.interfaces[0].ipAddresses}"); !strings.Contains(all, `"`+ip+`"`) {
		t.Errorf("the guest has the addresses %s, its pod %s", all, ip)
	}
	n.kubectl("delete", "vm", "one", "--timeout=300s")
	n.gone("vmi,pods")
	report("the guest has powered off")

	n.apply(renderDebianVM("two", "cloudInitConfigDrive", host, `
- sshPublicKey: {source: {secret: {secretName: keys}}, propagationMethod: {configDrive: {}}}
`))
	n.awaitCloudInit("two", "DataSourceConfigDrive")
	n.checkCloudInit("two", n.sshServer("two", host.PublicKey()), byCloudInit)
	report("the key of a configDrive has logged in")
}

// awaitCloudInit waits until cloud-init has finished with a data source.
func (n *tenant) awaitCloudInit(vmi, source string) {
	n.Helper()
	log := n.console(vmi, "Datasource "+source)
	line, _, _ := strings.Cut(log[max(0, strings.LastIndex(log, "Cloud-init v.")):], "\n")
	n.Log(strings.TrimSpace(line))
}

// checkCloudInit compares what cloud-init has made of a guest with what it was given.
func (n *tenant) checkCloudInit(vmi string, at sshServer, key keyPair) {
	n.Helper()
	out := n.mustRunAs(at, "debian", ssh.PublicKeys(key), "cloud-init status --wait; id; hostname")
	n.Log(out)
	for _, want := range []string{"status: done\n", "(debian)", "\n" + vmi + "\n"} {
		if !strings.Contains(out, want) {
			n.Errorf("the default user gets %q, want %q", out, want)
		}
	}
}
