package launcher

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// firmwareOnly is a guest that comes as far as its firmware. It has a TPM, for which libvirt starts swtpm, with the key of a secret.
const firmwareOnly = `<domain type="qemu"><name>guest</name><memory unit="MiB">192</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type>
<loader readonly="yes" type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>
<nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd">/tmp/vars.fd</nvram></os>
<features><acpi/></features><devices>
<serial type="file"><source path="/tmp/serial.log"/></serial>
<tpm model="tpm-crb"><backend type="emulator" version="2.0" persistent_state="yes">
<encryption secret="` + keySecret + `"/><source type="dir" path="/tmp/tpm2"/></backend></tpm>
<video><model type="virtio"/></video><graphics type="vnc" socket="/tmp/vnc"/><memballoon model="none"/></devices></domain>`

const keySecret = "5d307ca9-b3ef-828c-8861-06e72d69f223"

const secretOfKey = `<secret ephemeral="yes" private="yes"><uuid>` + keySecret + `</uuid><usage type="vtpm"><name>key</name></usage></secret>`

// guest: a guest starts, and its firmware speaks.
func guest(t *testing.T, root string) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the guest is written for amd64")
	}
	dir := state(t)
	provide(t, root, dir)
	s, err := begin(t.Context(), root, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.end()
		if t.Failed() {
			t.Logf("log of libvirtd:\n%s", s.log.String())
		}
	}()
	start := time.Now()
	err = s.call(func(client *libvirt.Libvirt) error {
		secret, err := client.SecretDefineXML(secretOfKey, 0)
		if err != nil {
			return err
		}
		if err := client.SecretSetValue(secret, []byte("a key"), 0); err != nil {
			return err
		}
		domain, err := client.DomainDefineXML(firmwareOnly)
		if err != nil {
			return err
		}
		return client.DomainCreate(domain)
	})
	if err != nil {
		t.Fatal(err)
	}
	// The flags of swtpm's header: the lowest says that the content is encrypted.
	if tpm, err := os.ReadFile(filepath.Join(dir, "tpm2", "tpm2-00.permall")); err != nil || len(tpm) < 6 || tpm[5]&1 == 0 {
		t.Errorf("the state of the TPM is not encrypted: %v", err)
	}
	t.Logf("the guest was started in %.1f s", time.Since(start).Seconds())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		said, err := os.ReadFile(filepath.Join(dir, "serial.log"))
		if err == nil && strings.Contains(string(said), "BdsDxe") {
			t.Logf("its firmware speaks after %.1f s", time.Since(start).Seconds())
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the firmware says nothing: %v: %q", err, said)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
