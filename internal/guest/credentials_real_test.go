package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/poll"
	v1 "kubevirt.io/api/core/v1"
)

// writeSecret writes the files of a mounted Secret as kubelet does: names that begin with '..' are folders of its own, and a change replaces a link.
func writeSecret(t *testing.T, folder, version string, files map[string]string) {
	t.Helper()
	data := filepath.Join(folder, "..version-"+version)
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(data, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..data/"+name, filepath.Join(folder, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	next := filepath.Join(folder, "..data_tmp")
	if err := os.Symlink("..version-"+version, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(folder, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestCredentialsOfARealGuest: QEMU's own agent gives keys and a password to a user of the guest, and follows the Secrets.
func TestCredentialsOfARealGuest(t *testing.T) {
	t.Parallel()
	vmi := vmiWithAgent(t)
	keys := v1.SSHPublicKeyAccessCredential{Source: v1.SSHPublicKeyAccessCredentialSource{Secret: &v1.AccessCredentialSecretSource{SecretName: "keys"}}}
	keys.PropagationMethod.QemuGuestAgent = &v1.QemuGuestAgentSSHPublicKeyAccessCredentialPropagation{Users: []string{"demo"}}
	passwords := v1.UserPasswordAccessCredential{Source: v1.UserPasswordAccessCredentialSource{Secret: &v1.AccessCredentialSecretSource{SecretName: "passwords"}}}
	passwords.PropagationMethod.QemuGuestAgent = &v1.QemuGuestAgentUserPasswordAccessCredentialPropagation{}
	vmi.Spec.AccessCredentials = []v1.AccessCredential{{SSHPublicKey: &keys}, {UserPassword: &passwords}}
	secret := func(root string, i int) string { return filepath.Join(root, pod.CredentialPath(i)) }
	c := serveVMI(t, vmi)
	l := startLauncher(t, c, func(root string) {
		mountAgent(t)(root)
		writeSecret(t, secret(root, 0), "1", map[string]string{
			"a": "ssh-ed25519 AAAAone me@shop\n# a comment\n\n", "b": "ssh-ed25519 AAAAtwo\nssh-ed25519 AAAAthree"})
		writeSecret(t, secret(root, 1), "1", map[string]string{"demo": "correct horse\n"})
	})
	has := func(what, line string) {
		t.Helper()
		if !poll.Until(longLimit, func() bool { return strings.Contains(l.consoleText(), "KILN-CREDENTIALS "+line) }) {
			t.Fatalf("%s: the guest has not said '%s':\n%s", what, line, l.out.String())
		}
	}
	has("at the start", "demo:correct horse;ssh-ed25519 AAAAone me@shop;ssh-ed25519 AAAAtwo;ssh-ed25519 AAAAthree")
	c.waitForReport(t, l, "credentials that have reached the guest", failsWith(""))

	writeSecret(t, secret(l.root, 0), "2", map[string]string{"a": "ssh-ed25519 AAAAfour"})
	if err := os.Remove(filepath.Join(secret(l.root, 0), "b")); err != nil {
		t.Fatal(err)
	}
	writeSecret(t, secret(l.root, 1), "2", map[string]string{"demo": "battery staple"})
	has("after a change of the Secrets", "demo:battery staple;ssh-ed25519 AAAAfour")
	l.sendTERM(t)
	if status := l.waitForExit(t); status != 0 {
		t.Errorf("the launcher ends with status %d", status)
	}
}
