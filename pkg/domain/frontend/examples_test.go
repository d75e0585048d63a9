package frontend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/mutate"
	"github.com/kilnvm/kiln/test/frontends"
	"github.com/kilnvm/kiln/test/samples"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	v1 "kubevirt.io/api/core/v1"
)

// TestExamples: every guest of the examples that stage 1 has made explicit renders. Guests with a size need instancetypes, which the corpus adds.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, set := range samples.Sets(t) {
		t.Run(set.Name, func(t *testing.T) {
			if guests := rendersAll(t, set.Examples(t)); guests < map[bool]int{true: 20, false: 14}[set.Published()] {
				t.Errorf("the examples hold %d guests only", guests)
			}
		})
	}
}

// rendersAll renders the guests of files and counts them.
func rendersAll(t *testing.T, files []string) (guests int) {
	t.Helper()
	cluster, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	for _, file := range files {
		for _, vmi := range guestsIn(t, file) {
			guests++
			mutate.Apply(vmi, cluster.Defaults)
			vmi.Spec.Domain.Firmware.UUID = "5d307ca9-b3ef-428c-8861-06e72d69f223"
			for i := range vmi.Spec.Domain.Devices.Interfaces {
				if n := &vmi.Spec.Domain.Devices.Interfaces[i]; n.MacAddress == "" {
					n.MacAddress = "52:54:00:00:00:01"
				}
			}
			dom, errs := frontend.Render(frontend.Input{VMI: vmi, Defaults: cluster.Frontend, Facts: frontend.Facts{Machines: frontends.Machines}})
			if len(errs) > 0 {
				t.Errorf("%s: %v", filepath.Base(file), errs.ToAggregate())
				continue
			}
			record := abi.Freeze(dom, cluster.Frontend.Version)
			again := frontends.Rendered(t, frontend.Input{VMI: vmi, Frozen: &record})
			if frontends.Printed(t, dom) != frontends.Printed(t, again) {
				t.Errorf("%s: a replay differs", filepath.Base(file))
			}
		}
	}
	return guests
}

// guestsIn reads the VMIs of a file, and the templates of its VMs that have no size.
func guestsIn(t *testing.T, file string) []*v1.VirtualMachineInstance {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []*v1.VirtualMachineInstance
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var raw struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              struct {
				Instancetype *v1.InstancetypeMatcher                `json:"instancetype"`
				Template     *v1.VirtualMachineInstanceTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		vmi := &v1.VirtualMachineInstance{}
		if convert(t, document, &raw); raw.Kind == "VirtualMachineInstance" {
			convert(t, document, vmi)
			out = append(out, vmi)
		} else if raw.Kind == "VirtualMachine" && raw.Spec.Instancetype == nil && raw.Spec.Template != nil {
			vmi.Name, vmi.Namespace, vmi.Spec = raw.Name, raw.Namespace, raw.Spec.Template.Spec
			out = append(out, vmi)
		}
	}
}

func convert(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}
