package admission

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/kubevirt/virtcontroller"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// cpuAlone is a record that was made without the hook, from the labels of a node.
const cpuAlone = `{"schemaVersion":2,"defaults":"","digest":"","machine":"","cpu":{"requested":"host-model","model":"EPYC-Rome","vendor":"AMD",` +
	`"features":["avx2","clwb"],"topology":{"sockets":1,"cores":1,"threads":1}}}`

// TestPinnedCPU: which VMIs that KubeVirt makes ask for the recorded CPU. The VMI is admitted when it is judged again, also if its instancetype has host-model.
func TestPinnedCPU(t *testing.T) {
	ofHostModel := func(o *owned) {
		changed := revisionOf(t, parsed(t, strings.Replace(catalog, "guest: 2", "guest: 2, model: host-model", 1)))
		o.documents, o.pins.Instancetype = append(o.documents, changed), nameOf(t, changed)
		o.refer(o.pins.Instancetype, o.pins.Preference)
	}
	const pinned = "EPYC-Rome avx2=require clwb=require"
	withDevices := strings.Replace(captured, `{"defaults"`, `{"cpu":`+cpuAlone[strings.Index(cpuAlone, `{"requested`):len(cpuAlone)-1]+`,"defaults"`, 1)
	for _, test := range []struct {
		why, hardware string
		edit          func(*owned)
		model         string // which KubeVirt writes into the VMI, else host-model
		hook          bool
		want          string
		hooked        bool
	}{
		{why: "a record", hardware: hardwareOf("seed", withDevices), want: pinned},
		{why: "a record of the CPU alone", hardware: hardwareOf("seed", cpuAlone), want: pinned},
		{why: "an instancetype with host-model", hardware: hardwareOf("seed", cpuAlone), edit: ofHostModel, want: pinned},
		{why: "a record, and the hook", hardware: hardwareOf("seed", withDevices), hook: true, want: pinned, hooked: true},
		{why: "a record of the CPU alone, and the hook that nobody asks for", hardware: hardwareOf("seed", cpuAlone), hook: true, want: pinned},
		{why: "a record of the CPU alone, and the hook", hardware: hardwareOf("seed", cpuAlone), hook: true, edit: annotated(v1alpha1.AnnotationFrontend, "{}"),
			want: pinned, hooked: true},
		{why: "no record", want: "host-model"},
		{why: "the record of another guest", hardware: hardwareOf("other", cpuAlone), want: "host-model"},
		{why: "new hardware", hardware: hardwareOf("seed", cpuAlone), edit: annotated(v1alpha1.AnnotationHardware, "latest"), want: "host-model"},
		{why: "a model that the node does not have whole", hardware: hardwareOf("seed", strings.Replace(cpuAlone, `"topology"`,
			`"disabledFeatures":["sha-ni"],"topology"`, 1)), want: "host-model"},
		{why: "a forged record", hardware: hardwareOf("seed", strings.Replace(cpuAlone, "clwb", "c l", 1)), want: "host-model"},
		{why: "a model of the owner", hardware: hardwareOf("seed", cpuAlone), model: "EPYC", want: "EPYC"},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := withHardware(t, test.hardware, test.edit, config.Gates{"Sidecar": test.hook})
			if test.hook {
				c.Reviewer.KubeVirt = virtcontroller.Completer{Hook: virtcontroller.Hook{Image: "registry.example.org/launcher:v1"}}
			}
			request := theirs(t, "", "cpu: {", "cpu: {model: "+cmp.Or(test.model, v1.CPUModeHostModel)+", ")
			response := ask(t, c.Hooks()[MutateVMI], request)
			if !response.Allowed {
				t.Fatalf("%+v", response.Result)
			}
			text := patched(t, request, response)
			vmi := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal([]byte(text), vmi); err != nil {
				t.Fatal(err)
			}
			got := vmi.Spec.Domain.CPU.Model
			for _, f := range vmi.Spec.Domain.CPU.Features {
				got += " " + f.Name + "=" + f.Policy
			}
			if _, hooked := vmi.Annotations[v1alpha1.AnnotationFrontend]; got != test.want || hooked != test.hooked {
				t.Errorf("the VMI asks for %s, want %s; hook %v", got, test.want, hooked)
			}
			again := create(t, text)
			again.UserInfo = request.UserInfo
			if response := ask(t, c.Hooks()[MutateVMI], again); !response.Allowed || response.Patch != nil {
				t.Errorf("the second call changes what the first has made: %s, %+v", response.Patch, response.Result)
			}
			if response := ask(t, c.Hooks()[ValidateVMI], again); !response.Allowed {
				t.Errorf("refused: %+v", response.Result)
			}
		})
	}
}
