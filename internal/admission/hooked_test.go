package admission

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

const (
	sidecars = "hooks.kubevirt.io/hookSidecars"
	ownHook  = `{"image":"registry.example.org/launcher:v1","imagePullPolicy":"IfNotPresent","args":["hook"]}`
	recorded = `{"defaults":"1","digest":"sha256:` + "0000000000000000000000000000000000000000000000000000000000000000" + `","machine":"pc-q35-7.2"}`
)

// hardwareOf is the GuestHardware 'web' of an identity.
func hardwareOf(identity, record string) string {
	return "apiVersion: kilnvm.io/v1alpha1\nkind: GuestHardware\nmetadata: {name: web, namespace: team}\nspec: {identity: " + identity + ", hardware: " +
		record + "}"
}

// withHardware is a cluster with the VM 'web', edited if edit is given, its GuestHardware, none if it is empty, and gates of KubeVirt.
func withHardware(t *testing.T, hardware string, edit func(*owned), gates config.Gates) *cluster {
	t.Helper()
	o := newOwned(t)
	delete(o.vm.Annotations, v1alpha1.AnnotationHardware)
	if edit != nil {
		edit(o)
	}
	if hardware != "" {
		o.documents = append(o.documents, hardware)
	}
	c := o.cluster(t)
	now := c.Reviewer.Configuration()
	now.Limits.Gates = gates
	c.Reviewer.Configuration = func() config.Cluster { return now }
	return c
}

// TestHookOfKubeVirt: which VMIs that KubeVirt makes have a record and the hook that puts it back. What a tenant has written into the template is no record.
func TestHookOfKubeVirt(t *testing.T) {
	for _, test := range []struct {
		why, hardware, template string
		edit                    func(*owned)
		off                     bool
		protocol, record, list  string
		code                    int32
	}{
		{why: "a record", hardware: hardwareOf("seed", recorded), record: recorded, list: "[" + ownHook + "]"},
		{why: "a record, and a forged one", hardware: hardwareOf("seed", recorded), template: "kilnvm.io/frontend: forged", record: recorded, list: "[" +
			ownHook + "]"},
		{why: "a record, and another sidecar", hardware: hardwareOf("seed", recorded), template: sidecars + `: '[ {"image": "a"} ]'`, record: recorded,
			list: `[{"image":"a"},` + ownHook + "]"},
		{why: "no record"},
		{why: "no record, and a forged one", template: "kilnvm.io/frontend: '{}'"},
		{why: "the record of another guest", hardware: hardwareOf("other", recorded)},
		{why: "the first record", edit: func(o *owned) { o.vm.Annotations[v1alpha1.AnnotationFrontend] = "{}" }, record: "{}", list: "[" + ownHook + "]"},
		{why: "a record that the VM's owner has written", edit: func(o *owned) { o.vm.Annotations[v1alpha1.AnnotationFrontend] = recorded }},
		{why: "new hardware", hardware: hardwareOf("seed", recorded), edit: func(o *owned) { o.vm.Annotations[v1alpha1.AnnotationHardware] = "latest" }},
		{why: "KubeVirt's gate is off", hardware: hardwareOf("seed", recorded), off: true, template: "kilnvm.io/frontend: forged"},
		{why: "a record, for a plugin", hardware: hardwareOf("seed", recorded), protocol: virtcontroller.HookPlugin, record: recorded},
		{why: "the first record, for a plugin, and a sidecar of the template", protocol: virtcontroller.HookPlugin, template: sidecars + `: '[{"image":"a"}]'`,
			edit: func(o *owned) { o.vm.Annotations[v1alpha1.AnnotationFrontend] = "{}" }, record: "{}", list: `[{"image":"a"}]`},
		{why: "a plugin, and KubeVirt's gate is off", hardware: hardwareOf("seed", recorded), protocol: virtcontroller.HookPlugin, off: true,
			template: "kilnvm.io/frontend: forged"},
		{why: "a plugin, and no record but a forged one", protocol: virtcontroller.HookPlugin, template: "kilnvm.io/frontend: '{}'"},
		{why: "a list of sidecars that KubeVirt cannot read", hardware: hardwareOf("seed", recorded), template: sidecars + ": x", code: http.StatusConflict},
		{why: "a record that no boot has written", hardware: hardwareOf("seed", strings.Replace(recorded, "pc-q35-7.2", "x y", 1)),
			code: http.StatusServiceUnavailable},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := withHardware(t, test.hardware, test.edit, config.Gates{"Sidecar": !test.off || test.protocol != "", "Plugins": !test.off || test.protocol == ""})
			c.Reviewer.KubeVirt = virtcontroller.Completer{Hook: virtcontroller.Hook{Image: "registry.example.org/launcher:v1", Protocol: test.protocol}}
			request := theirs(t, test.template)
			response := ask(t, c.Hooks()[MutateVMI], request)
			if !response.Allowed || test.code != 0 {
				if response.Allowed || response.Result.Code != test.code {
					t.Errorf("%t, %+v", response.Allowed, response.Result)
				}
				return
			}
			text := patched(t, request, response)
			vmi := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal([]byte(text), vmi); err != nil {
				t.Fatal(err)
			}
			if got := vmi.Annotations[v1alpha1.AnnotationFrontend]; got != test.record {
				t.Errorf("record '%s', want '%s'", got, test.record)
			}
			if got := vmi.Annotations[sidecars]; got != test.list {
				t.Errorf("sidecars '%s', want '%s'", got, test.list)
			}
			again := create(t, text)
			again.UserInfo = request.UserInfo
			if response := ask(t, c.Hooks()[MutateVMI], again); !response.Allowed || response.Patch != nil {
				t.Errorf("the second call changes what the first has made: %s, %+v", response.Patch, response.Result)
			}
		})
	}
}
