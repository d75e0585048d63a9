package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestAgreement: profiles of one priority must not decide a field by their names; of several priorities, the highest decides.
func TestAgreement(t *testing.T) {
	t.Parallel()
	const a, b = `{selector: {}, template: {spec: `, `{selector: {}, template: {spec: `
	for _, test := range []struct {
		why, a, b string
		// want is the field, and both values; empty where they agree.
		want string
	}{
		{"different fields", `{domain: {cpu: {model: A}}}`, `{domain: {machine: {type: q35}}}`, ""},
		{"equal values", `{domain: {cpu: {model: A}}}`, `{domain: {cpu: {model: A}}}`, ""},
		{"equal amounts", `{domain: {memory: {guest: 1Gi}}}`, `{domain: {memory: {guest: 1024Mi}}}`, ""},
		{"different amounts", `{domain: {memory: {guest: 1Gi}}}`, `{domain: {memory: {guest: 1Mi}}}`, `spec.domain.memory.guest: "1Gi" and "1Mi"`},
		{"a field", `{domain: {cpu: {model: A}}}`, `{domain: {cpu: {model: B}}}`, `spec.domain.cpu.model: "A" and "B"`},
		{"a key", `{nodeSelector: {zone: a, x: b}}`, `{nodeSelector: {zone: b, z: w}}`, `spec.nodeSelector[zone]: "a" and "b"`},
		{"an element", `{domain: {devices: {disks: [{name: a, cache: none}]}}}`, `{domain: {devices: {disks: [{name: b, cache: writeback}, {name: a,
			cache: writethrough}]}}}`,
			`spec.domain.devices.disks[a].cache: "none" and "writethrough"`},
		{"members of a choice", `{volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}`, `{volumes: [{name: a, containerDisk: {image: i}}]}`,
			`spec.volumes[a]: emptyDisk and containerDisk`},
		{"one member of a choice", `{domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}`,
			`{domain: {firmware: {bootloader: {efi: {persistent: true}}}}}`, ""},
		{"lists without names", `{tolerations: [{key: a}]}`, `{tolerations: [{key: b}]}`, `spec.tolerations: [{"key":"a"}] and [{"key":"b"}]`},
		{"an empty object and a field in it", `{domain: {devices: {tpm: {}}}}`, `{domain: {devices: {tpm: {persistent: true}}}}`, ""},
		{"on and off", `{domain: {devices: {tpm: {}}}}`, `{domain: {devices: {tpm: {enabled: false}}}}`, `spec.domain.devices.tpm.enabled: true and false`},
		{"clock offsets", `{domain: {clock: {utc: {}}}}`, `{domain: {clock: {timezone: UTC}}}`, `spec.domain.clock.utc+timezone: {"utc":{}} and {"timezone":"UTC"}`},
		{"counts of vCPUs", `{domain: {cpu: {cores: 2}}}`, `{domain: {cpu: {sockets: 2}}}`, `spec.domain.cpu.cores+sockets+threads: {"cores":2} and {"sockets":2}`},
	} {
		first, second := read(t, "a", a+test.a+"}}"), read(t, "b", b+test.b+"}}")
		var want []string
		if test.want != "" {
			field, values, _ := strings.Cut(test.want, ": ")
			want = []string{"GuestProfile 'a' and GuestProfile 'b' have the same priority and disagree on " + field + ": " + values +
				"; change the labels so that one of them selects the VMI, or give one of them a higher priority"}
		}
		for _, all := range [][]*Profile{{first, second}, {second, first}} {
			vmi := vmiOf(t, "{}")
			var got []string
			for _, err := range Fill(all, vmi, Observer{}) {
				got = append(got, err.Detail)
				if err.Field != "metadata.labels" || err.Origin != "profile/conflict" || !equality.Semantic.DeepEqual(vmi, vmiOf(t, "{}")) {
					t.Errorf("%s: at %s by %s, the VMI is %v", test.why, err.Field, err.Origin, vmi)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: (-want +got)\n%s", test.why, cmp.Diff(want, got))
			}
		}
		higher := read(t, "c", "{priority: 1, selector: {}, template: {spec: "+test.b+"}}")
		vmi := vmiOf(t, "{}")
		if errs := Fill([]*Profile{first, second, higher}, vmi, Observer{}); len(errs) > 0 {
			t.Errorf("%s: a profile of a higher priority decides: %v", test.why, errs)
		}
	}
}

// TestDisagreementsAreBounded: profiles of many fields give a bounded number of errors of bounded length.
func TestDisagreementsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 48<<10) // below the limit of a spec
	keys := ""
	for i := range 100 {
		keys += "k" + strings.Repeat("i", i) + ": V, "
	}
	a := read(t, "a", `{selector: {}, template: {spec: {schedulerName: "`+long+`", nodeSelector: {`+strings.ReplaceAll(keys, "V", "a")+`}}}}`)
	b := read(t, "b", `{selector: {}, template: {spec: {schedulerName: "y`+long+`", nodeSelector: {`+strings.ReplaceAll(keys, "V", "b")+`}}}}`)
	errs := Fill([]*Profile{a, b}, vmiOf(t, "{}"), Observer{})
	if len(errs) != maxErrors || len(errs.ToAggregate().Error()) > 64<<10 {
		t.Errorf("%d errors of %d bytes", len(errs), len(errs.ToAggregate().Error()))
	}
	if found := Disagreements([]*Profile{b, a}, nil); len(found) != maxErrors || found[0].First.Profile != a {
		t.Errorf("%d disagreements", len(found))
	}
}

// TestPriorities: field by field, whatever the order of the list.
func TestPriorities(t *testing.T) {
	t.Parallel()
	all := []*Profile{
		read(t, "low", `{selector: {}, priority: -1, template: {spec: {domain: {cpu: {model: low}, machine: {type: low}, memory: {guest: 1Gi}}}}}`),
		read(t, "high", `{selector: {}, priority: 5, template: {spec: {domain: {cpu: {model: high}, firmware: {bootloader: {bios: {}}}}}}}`),
		read(t, "mid", `{selector: {}, template: {spec: {domain: {cpu: {model: mid}, machine: {type: mid}, firmware: {bootloader: {efi: {secureBoot: false}}}}}}}`),
	}
	want := vmiOf(t, `{spec: {domain: {cpu: {model: high}, machine: {type: mid}, memory: {guest: 1Gi}, firmware: {bootloader: {bios: {}}}}}}`)
	for range len(all) {
		all = append(all[1:], all[0])
		vmi := vmiOf(t, "{}")
		if errs := Fill(all, vmi, Observer{}); len(errs) > 0 || !equality.Semantic.DeepEqual(vmi, want) {
			t.Errorf("%v (-want +got)\n%s", errs, cmp.Diff(want, vmi))
		}
	}
}
