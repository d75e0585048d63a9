package launcher

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	settings "github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/explicit"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
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
	s, err := startSession(t.Context(), root, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.kill()
		if t.Failed() {
			t.Logf("log of libvirtd:\n%s", s.log.String())
		}
	}()
	start := time.Now()
	err = s.withConnection(func(client *libvirt.Libvirt) error {
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
	firmwareSpeaks(t, dir)
}

// firmwareSpeaks waits until the firmware of a guest has written to the serial port that it starts boot loaders.
func firmwareSpeaks(t *testing.T, dir string) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		serial, err := os.ReadFile(filepath.Join(dir, "serial.log"))
		if err == nil && strings.Contains(string(serial), "BdsDxe") {
			t.Logf("its firmware speaks %.1f s later", time.Since(start).Seconds())
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the firmware says nothing: %v: %q", err, serial)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// qcow2Firmware: a guest starts with firmware in format qcow2, as Fedora and SUSE build it, and its variables are in a file in this format. Kiln renders the
// element <os>.
func qcow2Firmware(t *testing.T, root string) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the guest is written for amd64")
	}
	dir := state(t)
	provide(t, root, dir)
	for from, to := range map[string]string{"/usr/share/OVMF/OVMF_CODE_4M.fd": "/tmp/code.qcow2", "/usr/share/OVMF/OVMF_VARS_4M.fd": "/tmp/vars.qcow2"} {
		if out, err := confinedCommand(t.Context(), root, dir, "/usr/bin/qemu-img", "convert", "-f", "raw", "-O", "qcow2", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var domain libvirtxml.Domain
	if err := domain.Unmarshal(regexp.MustCompile(`(?s)<tpm .*</tpm>`).ReplaceAllString(firmwareOnly, "")); err != nil {
		t.Fatal(err)
	}
	domain.OS = renderedOS(t, backend.Firmware{Architecture: "amd64", Machines: []string{"q35", "pc-q35-*"}, Format: "qcow2",
		Code: "/tmp/code.qcow2", VarsTemplate: "/tmp/vars.qcow2"})
	text, err := domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startSession(t.Context(), root, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.kill()
	if err := s.withConnection(func(client *libvirt.Libvirt) error {
		defined, err := client.DomainDefineXML(text)
		if err != nil {
			return err
		}
		return client.DomainCreate(defined)
	}); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	firmwareSpeaks(t, dir)
	if store, err := os.ReadFile(filepath.Join(dir, "nvram.fd.qcow2")); err != nil || !strings.HasPrefix(string(store), "QFI\xfb") {
		t.Errorf("the variables are in no file in format qcow2: %v", err)
	}
}

// renderedOS returns the element <os> that Kiln renders for a guest with EFI on a host with one build of firmware.
func renderedOS(t *testing.T, build backend.Firmware) *libvirtxml.DomainOS {
	t.Helper()
	vmi := explicit.Plain(t, "guest")
	vmi.Spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{SecureBoot: new(false)}}}
	m := render.Machine{VMI: vmi, Defaults: settings.Default().Frontend, Host: backend.Assumed("amd64"), Bindings: backend.AssumedBindings(vmi)}
	m.Host.Firmware, m.Bindings.NVRAM = []backend.Firmware{build}, "/tmp/nvram.fd"
	out, errs := render.Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	found := out.Documents.Domain.OS
	found.SMBios = nil // it refers to <sysinfo>, which this guest has not
	return found
}
