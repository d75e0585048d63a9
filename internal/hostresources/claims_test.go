package hostresources

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

// hostClaim begins the file of a claim. Its spec follows.
const hostClaim = "apiVersion: kilnvm.io/v1alpha1\nkind: HostClaim\nspec: "

// passphrase must be nowhere but in libvirt's memory.
const passphrase = "correct-horse-battery-staple"

// ownerOf is the VMI as the owner of its domain.
func ownerOf(vmi *v1.VirtualMachineInstance) hypervisor.Owner {
	return hypervisor.Owner{Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, Node: "here"}
}

func guestOf(vmi *v1.VirtualMachineInstance, all backend.Documents, values map[string][]byte) hypervisor.Guest {
	return hypervisor.Guest{Owner: ownerOf(vmi), Documents: all, Values: values}
}

func connected(t *testing.T, daemon *libvirt.Daemon) *hypervisor.Libvirt {
	t.Helper()
	l := hypervisor.New(daemon.Socket)
	t.Cleanup(l.Close)
	return l
}

// A LUKS volume on a network disk: the administrator describes it, QEMU starts with it, and its passphrase appears nowhere.
func TestEncryptedNetworkDisk(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	dir, err := os.MkdirTemp("", "kiln-claims-") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	claims := filepath.Join(dir, "claims")
	files := map[string]string{
		"data.yaml": hostClaim + "{network: {protocol: nbd, name: data, hosts: [{socket: " + luks(t, dir) + "}]}, encrypted: true}\n",
		"data.luks": passphrase,
	}
	if err := os.MkdirAll(filepath.Join(claims, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(claims, "shop", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := OpenClaims(claims)
	if err != nil {
		t.Fatal(err)
	}
	host := &BareMachine{Claims: root, State: filepath.Join(dir, "state")}
	vmi := explicit.WithClaim(t)
	bound := bound(t, host, vmi)
	all := explicit.Documents(t, vmi, bound.Bindings)
	values, err := bound.Secrets(all.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	l := connected(t, d)
	for range 2 { // the second time it runs already
		if err := l.Start(t.Context(), guestOf(vmi, all, values)); err != nil {
			t.Fatal(err)
		}
	}
	if secrets, _ := explicit.SideDocuments(t, d); secrets != 1 {
		t.Errorf("libvirt has %d secrets, want 1", secrets)
	}
	nowhere(t, d, all)
	for range 2 { // the second time nothing is there
		if err := l.Remove(t.Context(), ownerOf(vmi)); err != nil {
			t.Fatal(err)
		}
	}
	if secrets, filters := explicit.SideDocuments(t, d); secrets+filters > 0 {
		t.Errorf("%d secrets and %d filters stay", secrets, filters)
	}
}

// nowhere looks for the passphrase in every document and log.
func nowhere(t *testing.T, d *libvirt.Daemon, all backend.Documents) {
	t.Helper()
	active, err := d.ActiveXML(all.Domain.Name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.Domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := all.Secrets[0].Document.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{
		"the running domain": active, "the rendered domain": text, "the secret's document": secret, "libvirt's log": d.Log(),
	} {
		if bytes.Contains([]byte(text), []byte(passphrase)) {
			t.Errorf("the passphrase is in %s", where)
		}
	}
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	var uuid rpc.UUID
	if _, err := hex.Decode(uuid[:], []byte(strings.ReplaceAll(all.Secrets[0].Document.UUID, "-", ""))); err != nil {
		t.Fatal(err)
	}
	if value, err := client.SecretGetValue(rpc.Secret{UUID: uuid}, 0); err == nil {
		t.Errorf("anyone can read the secret: %d bytes", len(value))
	}
}
