package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
)

// TestWhatKubeVirtWroteSurvivesAReplace: UUID, serial number and annotations of the template that an update leaves out. What the update gives counts.
func TestWhatKubeVirtWroteSurvivesAReplace(t *testing.T) {
	const (
		vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: team, uid: u%s}\n" +
			"spec: {runStrategy: Always, template: {metadata: {%s}, spec: {domain: {%s devices: {}, memory: {guest: 1Gi}}}}}"
		finalizer = ", finalizers: [kubevirt.io/virtualMachineControllerFinalize]"
		numbered  = "annotations: {kubevirt.io/pci-topology-version: v3, kubevirt.io/pci-interface-slot-count: '5', team: a}"
		ids       = "firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, serial: abc},"
		eve       = "eve"
	)
	of := func(meta, template, domain string) string {
		return strings.NewReplacer("u%s", "u"+meta, "{%s}", "{"+template+"}", "{%s ", "{"+domain+" ").Replace(vm)
	}
	for _, test := range []struct {
		why, user, before, after string
		want                     string // of the template's metadata and firmware
	}{
		{"the original manifest", eve, of(finalizer, numbered, ids), of("", "", ""),
			`{"kubevirt.io/pci-interface-slot-count":"5","kubevirt.io/pci-topology-version":"v3"} 5d307ca9-b3ef-428c-8861-06e72d69f223 abc`},
		{"a second one, before KubeVirt has put its finalizer back", eve, of("", numbered, ids), of("", "", ""),
			`{"kubevirt.io/pci-interface-slot-count":"5","kubevirt.io/pci-topology-version":"v3"} 5d307ca9-b3ef-428c-8861-06e72d69f223 abc`},
		{"a VM of an older KubeVirt", eve, of(finalizer, "", ids), of("", "annotations: {team: b}", ""), `{"team":"b"} 5d307ca9-b3ef-428c-8861-06e72d69f223 abc`},
		{"other firmware", eve, of(finalizer, numbered, ids), of(finalizer, numbered, "firmware: {bootloader: {bios: {}}},"),
			`{"kubevirt.io/pci-interface-slot-count":"5","kubevirt.io/pci-topology-version":"v3","team":"a"} 5d307ca9-b3ef-428c-8861-06e72d69f223 abc`},
		{"values of the owner's", eve, of(finalizer, numbered, ids), of(finalizer, "annotations: {kubevirt.io/pci-topology-version: v2}",
			"firmware: {uuid: 11111111-b3ef-428c-8861-06e72d69f223, serial: mine},"),
			`{"kubevirt.io/pci-interface-slot-count":"5","kubevirt.io/pci-topology-version":"v2"} 11111111-b3ef-428c-8861-06e72d69f223 mine`},
		{"one value of the owner's", eve, of(finalizer, "", ids), of(finalizer, "", "firmware: {serial: mine},"), `null 5d307ca9-b3ef-428c-8861-06e72d69f223 mine`},
		{"a UUID alone", eve, of(finalizer, "", "firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223},"), of(finalizer, "", ""),
			`null 5d307ca9-b3ef-428c-8861-06e72d69f223 `},
		{"a serial number alone", eve, of(finalizer, "", "firmware: {serial: abc},"), of(finalizer, "", ""), `null  abc`},
		{"nothing was written", eve, of(finalizer, "", ""), of(finalizer, "", ""), "null"},
		{"firmware without either", eve, of(finalizer, "", "firmware: {bootloader: {bios: {}}},"), of(finalizer, "", ""), "null"},
		{"KubeVirt is not here: the spec that is applied is the spec that is read", eve, of("", "", ids), of("", "", ""), "null"},
		{"KubeVirt's controller means what it writes", virtController, of(finalizer, numbered, ids), of(finalizer, "", ""), "null"},
		{"Kiln's controller, which restores, means what it writes", controller, of(finalizer, numbered, ids), of(finalizer, "", ""), "null"},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := newCluster(t)
			request := update(t, test.before, test.after)
			request.UserInfo.Username = test.user
			after := patched(t, request, ask(t, c.Hooks()[MutateVM], request))
			stored := &v1.VirtualMachine{}
			if err := json.Unmarshal([]byte(after), stored); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(stored.Spec.Template.ObjectMeta.Annotations)
			if err != nil {
				t.Fatal(err)
			}
			got := string(text)
			if firmware := stored.Spec.Template.Spec.Domain.Firmware; firmware != nil {
				got += " " + string(firmware.UUID) + " " + firmware.Serial
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			validated := update(t, test.before, after)
			if response := ask(t, c.Hooks()[ValidateVM], validated); !response.Allowed {
				t.Errorf("%+v", response.Result)
			}
			if second := ask(t, c.Hooks()[MutateVM], validated); test.user == eve && second.Patch != nil {
				t.Errorf("the second call changes what the first has made: %s", second.Patch)
			}
		})
	}
}

// TestReplaceOfAVMWithoutATemplate: validation reports it, and nothing is kept.
func TestReplaceOfAVMWithoutATemplate(t *testing.T) {
	const bare = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, finalizers: [kubevirt.io/virtualMachineControllerFinalize]}\nspec: {%s}"
	full := strings.Replace(bare, "%s", "runStrategy: Halted, template: {spec: {domain: {devices: {}, firmware: {serial: a}, memory: {guest: 1Gi}}}}", 1)
	empty := strings.Replace(bare, "%s", "runStrategy: Halted", 1)
	for _, c := range []struct{ before, after string }{{full, empty}, {empty, empty}, {empty, full}} {
		if response := ask(t, newCluster(t).Hooks()[MutateVM], update(t, c.before, c.after)); response.Result != nil && response.Result.Code != 422 {
			t.Errorf("%s: %+v", c.after, response.Result)
		}
	}
}

// TestReplaceNeedsNoCatalog: with what is kept the spec is the stored one, so that neither a lost revision nor a newer rule refuses the update.
func TestReplaceNeedsNoCatalog(t *testing.T) {
	const vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web%s}\nspec: {runStrategy: Always, instancetype: {name: gone},\n" +
		"  template: {%s spec: {domain: {%s devices: {}}}}}"
	before := strings.NewReplacer("web%s", `web, annotations: {kilnvm.io/pins: '{"instancetype":"gone-x"}'}`, "{%s spec", "{metadata: {annotations: "+
		"{kubevirt.io/pci-topology-version: v3}}, spec", "{%s devices", "{firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, serial: s}, devices").Replace(vm)
	request := update(t, before, strings.ReplaceAll(vm, "%s", ""))
	after := patched(t, request, ask(t, newCluster(t).Hooks()[MutateVM], request))
	for _, want := range []string{"5d307ca9-b3ef-428c-8861-06e72d69f223", "pci-topology-version", "gone-x"} {
		if !strings.Contains(after, want) {
			t.Errorf("no '%s' in %s", want, after)
		}
	}
}
