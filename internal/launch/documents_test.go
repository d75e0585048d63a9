package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// passphrase must be nowhere but in libvirt's memory.
const passphrase = "correct-horse-battery-staple"

// networkGuest has one disk of a claim, and a card.
func networkGuest(t *testing.T) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "disks", "shop", "0d9c2f0e-0000-4000-8000-000000000001"
	guest := resource.MustParse("128Mi")
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
	vmi.Spec.Domain.CPU = &v1.CPU{Model: "qemu64", Cores: 1}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "data", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	claim := &v1.PersistentVolumeClaimVolumeSource{}
	claim.ClaimName = "data"
	vmi.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}}
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	return explicit
}

func documents(t *testing.T, vmi *v1.VirtualMachineInstance, bindings backend.Bindings) backend.Documents {
	t.Helper()
	host := backend.Assumed("amd64")
	host.VirtTypes = []string{"qemu"}
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: host, Bindings: bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rendered.Documents
}

// ownerOf is the VMI as the owner of its domain, on the node of these tests.
func ownerOf(vmi *v1.VirtualMachineInstance) Owner {
	return (&Node{Name: "here"}).owner(vmi)
}

func guestOf(vmi *v1.VirtualMachineInstance, all backend.Documents, values map[string][]byte) Guest {
	return Guest{Owner: ownerOf(vmi), Documents: all, Values: values}
}

// left counts the side documents that libvirt has.
func left(t *testing.T, d *libvirt.Daemon) (secrets, filters int) {
	t.Helper()
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	_, s, err := client.ConnectListAllSecrets(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := client.ConnectListAllNwfilters(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range list {
		if strings.HasPrefix(filter.Name, "kiln-") {
			filters++
		}
	}
	return int(s), filters
}

// A claim of the network, encrypted: described by the administrator, started by QEMU, and its passphrase seen by nobody.
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
		"data.yaml": "network: {protocol: nbd, name: data, hosts: [{socket: " + luks(t, dir) + "}]}\nencrypted: true\n", "data.luks": passphrase,
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
	host := &Host{Claims: root, State: filepath.Join(dir, "state")}
	vmi := networkGuest(t)
	bindings, errs := host.Bind(vmi)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	all := documents(t, vmi, bindings)
	values, err := host.secrets(vmi, all.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	l := connected(t, d)
	for range 2 { // the second time it runs already
		if err := l.Run(t.Context(), guestOf(vmi, all, values)); err != nil {
			t.Fatal(err)
		}
	}
	if secrets, _ := left(t, d); secrets != 1 {
		t.Errorf("libvirt has %d secrets, want 1", secrets)
	}
	nowhere(t, d, all)
	for range 2 { // the second time nothing is there
		if err := l.Remove(t.Context(), ownerOf(vmi)); err != nil {
			t.Fatal(err)
		}
	}
	if secrets, filters := left(t, d); secrets+filters > 0 {
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
	for where, text := range map[string]string{"the running domain": active, "the rendered domain": text, "the secret's document": secret, "libvirt's log": d.Log()} {
		if bytes.Contains([]byte(text), []byte(passphrase)) {
			t.Errorf("the passphrase is in %s", where)
		}
	}
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	uuid, err := parseUUID(all.Secrets[0].Document.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if value, err := client.SecretGetValue(rpc.Secret{UUID: uuid}, 0); err == nil {
		t.Errorf("anyone can read the secret: %d bytes", len(value))
	}
}
