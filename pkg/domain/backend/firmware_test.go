package backend_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
)

// built is a host whose libvirt has a version, with builds of OVMF that need no keys, each in a format.
func built(libvirt string, formats ...string) func(*render.Machine) {
	return func(m *render.Machine) {
		m.Host.LibvirtVersion, m.Host.Firmware = libvirt, nil
		for _, format := range formats {
			m.Host.Firmware = append(m.Host.Firmware, backend.Firmware{Architecture: "amd64", Machines: []string{"pc-q35-*", "q35"}, Format: format,
				Code: "/fw/code." + format, VarsTemplate: "/fw/vars." + format})
		}
	}
}

func all(changes ...func(*render.Machine)) func(*render.Machine) {
	return func(m *render.Machine) {
		for _, change := range changes {
			change(m)
		}
	}
}

func stored(format string) func(*render.Machine) {
	return func(m *render.Machine) { m.Bindings.NVRAMFormat = format }
}

// TestFirmwareFormats: libvirt is told the format of each file that is not raw, and a variable store is opened in the format that it was made in.
func TestFirmwareFormats(t *testing.T) {
	t.Parallel()
	const spec = "{architecture: amd64, domain: {memory: {guest: 1Gi}, firmware: {bootloader: {efi: {secureBoot: false}}}}}"
	const raw = `<os><loader readonly="yes" type="pflash">/fw/code.raw</loader><nvram template="/fw/vars.raw">/var/lib/kiln/default/guest/nvram.fd</nvram></os>`
	qcow2 := func(template string) string {
		return `<os><loader readonly="yes" type="pflash" format="qcow2">/fw/code.qcow2</loader>` +
			`<nvram template="/fw/vars.qcow2" format="qcow2"` + template + `>/var/lib/kiln/default/guest/nvram.fd.qcow2</nvram></os>`
	}
	profile := func(text string) func(*render.Machine) {
		return func(m *render.Machine) { m.Policy = backends.PolicyOf(t, *m, backends.HostProfile(t, "p", text)) }
	}
	for _, c := range []struct {
		why         string
		host        func(*render.Machine)
		want, words string
	}{
		{"a raw build", built("9.0.0", "raw"), raw, ""},
		{"a build without a format", all(built("9.0.0", "raw"), func(m *render.Machine) { m.Host.Firmware[0].Format = "" }), raw, ""},
		{"raw comes before others, whatever the host prefers", built("11.3.0", "qcow2", "raw"), raw, ""},
		{"a format that libvirt is told", built("9.2.0", "qcow2"), qcow2(""), ""},
		{"and the format of the template, if libvirt requires it", built("10.10.0", "qcow2"), qcow2(` templateFormat="qcow2"`), ""},
		{"an unknown libvirt is new enough", built("", "qcow2"), qcow2(` templateFormat="qcow2"`), ""},
		{"an older libvirt would map the file as it is", built("9.1.0", "qcow2"), "",
			"only in format 'qcow2' ('/fw/code.qcow2'), and libvirt 9.1.0, which reads it from version 9.2.0 on; install a build in format 'raw'"},
		{"a raw store", all(built("11.3.0", "qcow2", "raw"), stored("raw")), raw, ""},
		{"a store in qcow2 stays in it", all(built("11.3.0", "raw", "qcow2"), stored("qcow2")), qcow2(` templateFormat="qcow2"`), ""},
		{"a raw store is not read as another format", all(built("11.3.0", "qcow2"), stored("raw")), "",
			"the variables of the guest's firmware are in format 'raw'; run the VMI on a host that has a build in this format"},
		{"a store in qcow2 is not read as raw", all(built("11.3.0", "raw"), stored("qcow2")), "", "variables of the guest's firmware are in format 'qcow2'"},
		{"a store of an administrator's choice is raw", all(built("11.3.0", "qcow2"), profile("{pathTemplates: {nvram: '/nv/{{.Name}}.fd'}}")), "",
			"hostProfile.pathTemplates.nvram needs one in format 'raw'"},
		{"a format of which there is no build", built("11.3.0", "vmdk"), "", "only in format 'vmdk' ('/fw/code.vmdk'), and it must be 'raw' or 'qcow2'"},
	} {
		m := backends.Machine(t, spec)
		c.host(&m)
		out, errs := render.Domain(m)
		if c.want == "" {
			if causes(errs) != "FieldValueInvalid spec.domain.firmware.bootloader.efi" || !strings.Contains(errs[0].Detail, c.words) {
				t.Errorf("%s: errors are %v, want '%s'", c.why, errs.ToAggregate(), c.words)
			}
			continue
		}
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.why, errs.ToAggregate())
			continue
		}
		text, err := out.Documents.Domain.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		os := text[strings.Index(text, "<loader"):strings.Index(text, "</os>")]
		os = "<os>" + strings.NewReplacer("\n", "", "    ", "").Replace(os[:strings.Index(os, "</nvram>")+len("</nvram>")]) + "</os>"
		if diff := cmp.Diff(c.want, os); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestEncryptedFirmwareIsRaw: QEMU maps the firmware of encrypted memory as it is.
func TestEncryptedFirmwareIsRaw(t *testing.T) {
	t.Parallel()
	const spec = "{architecture: amd64, domain: {memory: {guest: 1Gi}, launchSecurity: {snp: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}}"
	m := backends.Machine(t, spec)
	for i := range m.Host.Firmware {
		m.Host.Firmware[i].Format = "qcow2"
	}
	refusal(t, m, "FieldValueInvalid spec.domain.firmware.bootloader.efi", "encrypted memory needs one in format 'raw'")
	whole := backends.Machine(t, spec)
	whole.Host.Firmware = append(m.Host.Firmware, whole.Host.Firmware...)
	if loader := rendered(t, whole).OS.Loader; loader.Type != "rom" || loader.Format != "" {
		t.Errorf("the loader is %+v, want a raw one of type rom", loader)
	}
}
