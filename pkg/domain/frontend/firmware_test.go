package frontend_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/frontends"
)

func TestGenerationID(t *testing.T) {
	const here, restored = "5d307ca9-b3ef-828c-8861-06e72d69f223", "7f8f8c5e-0000-8000-8000-000000000001"
	for _, test := range []struct {
		why, arch, spec string
		change          func(*frontend.Input)
		want            string
	}{
		{why: "a new guest has one", arch: "amd64", spec: "{}", want: here},
		{why: "the administrator's defaults give none", arch: "amd64", spec: "{}", change: func(in *frontend.Input) { in.Defaults.GenerationID = false }},
		{why: "a guest that has run without keeps its hardware", arch: "amd64", spec: "{}",
			change: func(in *frontend.Input) { in.Frozen = &record.Record{Machine: "pc-q35-7.2"} }},
		{why: "one that has run with it keeps it, whatever the defaults become", arch: "amd64", spec: "{}", want: restored, change: func(in *frontend.Input) {
			in.Frozen, in.Defaults.GenerationID, in.Generation = &record.Record{Machine: "pc-q35-7.2", GenerationID: true}, false, restored
		}},
		{why: "it is told through ACPI", arch: "amd64", spec: "spec: {domain: {features: {acpi: {enabled: false}}}}"},
		{why: "QEMU 2.4 cannot tell firmware where to write it", arch: "amd64", spec: "spec: {domain: {machine: {type: pc-q35-2.4}}}"},
		{why: "the host cannot write into encrypted memory", arch: "amd64",
			spec: "spec: {domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}}"},
		{why: "QEMU has the device for PCs alone", arch: "arm64", spec: "{}"},
		{why: "a mainframe has no ACPI", arch: "s390x", spec: "{}"},
	} {
		in := frontends.With(t, test.arch, "generation", test.spec)
		in.Defaults.GenerationID, in.Generation = true, here
		if test.change != nil {
			test.change(&in)
		}
		dom, errs := frontend.Render(in)
		if len(errs) > 0 {
			t.Errorf("%s: %v", test.why, errs)
			continue
		}
		got := ""
		if dom.GenID != nil {
			got = dom.GenID.Value
		}
		if got != test.want {
			t.Errorf("%s: ID '%s', want '%s'", test.why, got, test.want)
		}
		if record := abi.Freeze(dom, "v1"); record.GenerationID != (test.want != "") {
			t.Errorf("%s: recorded %v", test.why, record.GenerationID)
		}
	}
}
