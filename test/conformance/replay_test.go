package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
)

// recordOf reads a case as it stands in a file of recorded answers. It has the schemas of the kinds, which the command reads in the root
// of the repository.
func recordOf(t *testing.T, text string) record {
	t.Helper()
	var c record
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	plural := "virtualmachineinstances"
	if c.VM != nil {
		plural = "virtualmachines"
	}
	t.Chdir("../..")
	var err error
	if c.schema, err = readSchema(plural); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	agrees      = "agrees"
	unexplained = "unexplained"
	// cores that no number of CPUs can be.
	illegible = `{"metadata":{"name":"a","namespace":"default"},"spec":{"domain":{"devices":{},"memory":{"guest":"1Gi"},"cpu":{"cores":-1}}}}`
	legible   = `{"metadata":{"name":"a","namespace":"default"},"spec":{"domain":{"devices":{},"memory":{"guest":"1Gi"}}}}`
	// dhcp has an option that there is not.
	dhcp = `{"metadata":{"name":"a","namespace":"default"},"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{"interfaces":[{"name":"n","masquerade":{},` +
		`"dhcpOptions":{"bogus":"a"}}]}},"networks":[{"name":"n","pod":{}}]}}`
	// wrong is a VM whose volume has no source.
	wrong = `{"metadata":{"name":"a","namespace":"default"DELETED},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{},` +
		`"memory":{"guest":"1Gi"}},"volumes":[{"name":"v"}]}}}}`
	// bare is a VMI of arm64 with a firmware.
	bare = `{"context":{"arch":"arm64"},"vmi":{"metadata":{"name":"a","namespace":"default","uid":"5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"},` +
		`"spec":{"architecture":"arm64","domain":{"machine":{"type":"virt"},"cpu":{"cores":1,"model":"host-passthrough"},"memory":{"guest":"1Gi"},"devices":{},` +
		`"features":{"acpi":{"enabled":true}},"firmware":FIRMWARE}}},` +
		`"expect":{"xml":"<domain type='kvm'><name>a</name><os><type arch='aarch64' machine='virt'>hvm</type>LOADER</os></domain>"}}`
)

// TestReplay: the verdicts about unusual cases.
func TestReplay(t *testing.T) {
	deleted := strings.ReplaceAll(wrong, "DELETED", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`)
	kept := strings.ReplaceAll(wrong, "DELETED", "")
	arm := func(firmware, loader string) string {
		return strings.NewReplacer("FIRMWARE", firmware, "LOADER", loader).Replace(bare)
	}
	for _, test := range []struct {
		why   string
		judge replay
		text  string
		want  string
	}{
		{"an update that neither can read", replayMutate, `{"kind":"vmi","operation":"UPDATE","vmi":` + illegible +
			`,"expect":{"allowed":false,"message":"cannot unmarshal"}}`, agrees},
		{"an update that only the reference cannot read", replayMutate,
			`{"kind":"vmi","operation":"UPDATE","vmi":` + legible + `,"expect":{"allowed":false,"message":"cannot unmarshal"}}`, unexplained},
		{"a creation that neither can read", replayMutate, `{"kind":"vmi","vmi":` + illegible + `,"expect":{"allowed":false,"message":"cannot unmarshal"}}`, agrees},
		{"what is no object", replayMutate, `{"kind":"vmi","vmi":[1],"expect":{"allowed":false,"message":"cannot unmarshal"}}`, agrees},
		{"what is no object, to be validated", replayVMI, `{"vmi":"a","expect":{"allowed":false,"stage":"decode"}}`, agrees},
		{"what is no object, and was admitted", replayVMI, `{"vmi":"a","expect":{"allowed":true}}`, unexplained},
		{"an unknown field of a type that decodes itself", replayVMI, `{"vmi":` + dhcp + `,"expect":{"allowed":false,"stage":"schema",` +
			`"causes":[{"message":"spec.domain.devices.interfaces.dhcpOptions.bogus in body is a forbidden property"}]}}`, agrees},
		{"a field that the schema requires below a list", replayVMI, `{"vmi":` + strings.Replace(legible, `"devices":{}`, `"devices":{"inputs":[{"name":"i"}]}`, 1) +
			`,"expect":{"allowed":false,"stage":"schema","causes":[{"message":"spec.domain.devices.inputs.type in body is required"}]}}`, agrees},
		{"a VM on its way out is not judged", replayVM, `{"operation":"UPDATE","vm":` + deleted + `,"old":` + deleted + `,"expect":{"allowed":true}}`, agrees},
		{"the same VM while it stays", replayVM, `{"vm":` + kept + `,"expect":{"allowed":true}}`, unexplained},
		{"a guest of arm64 without a bootloader", replayConvert, arm(`{}`, ""), emptyBootloader},
		{"one with an empty bootloader", replayConvert, arm(`{"bootloader":{}}`, ""), emptyBootloader},
		{"one that the reference gave a firmware nevertheless", replayConvert, arm(`{}`, `<loader type='pflash'>/usr/share/AAVMF/AAVMF_CODE.fd</loader>`),
			unexplained},
	} {
		t.Run(test.why, func(t *testing.T) {
			o := replayGuarded(test.judge, recordOf(t, test.text), config.Default())
			got := o.listed
			switch {
			case o.agrees:
				got = agrees
			case got == "":
				got = unexplained
			}
			if got != test.want || strings.HasPrefix(o.difference, "panic") {
				t.Errorf("%s, want %s: %+v", got, test.want, o)
			}
		})
	}
}
