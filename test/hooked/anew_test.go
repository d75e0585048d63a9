package hooked

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
)

// TestPlacedAnew: without Kiln, KubeVirt and libvirt put the devices of a guest where Kiln predicts it: for random guests, and for each kind of board.
func TestPlacedAnew(t *testing.T) { placedAnew(t, few) }

// TestPlacedAnew200 is TestPlacedAnew with more guests.
func TestPlacedAnew200(t *testing.T) {
	nightly.Only(t)
	placedAnew(t, 200)
}

func placedAnew(t *testing.T, guests int) {
	l := start(t)
	compared := 0
	for seed := range uint64(guests) {
		random := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // to be repeated
		vmi := guest(random)
		for _, name := range []string{"", "graphics", "watchdog", "e1000", "transitional", "slot count"} {
			other := vmi.DeepCopy()
			if edit := boards[name]; edit != nil {
				edit(other)
			}
			compared += l.comparePlaces(t, seed, name, explicit(t, other))
		}
	}
	t.Logf("%d places", compared)
	if compared == 0 {
		t.Error("no device was compared")
	}
}

// comparePlaces compares the places of a guest, and returns their number.
func (l *launcher) comparePlaces(t *testing.T, seed uint64, name string, vmi *v1.VirtualMachineInstance) int {
	t.Helper()
	front, errs := render.FromFacts(render.Machine{VMI: vmi, Defaults: config.Default().Frontend}, frontend.Facts{})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	want := kubevirt.PlacedAnew(front.Frontend, vmi)
	xml := l.defined(t, vmi, hooks{})
	got := captured(t, xml, nil)
	var wrong []string
	for key, at := range want {
		is := got.Devices[key]
		if at.PCI != "" && at.PCI != is.PCI || at.Target != "" && at.Target != is.Target {
			wrong = append(wrong, key+" is at "+is.String()+", predicted "+at.String())
		}
	}
	for key, is := range got.Devices {
		_, port := record.Port(key)
		if _, predicted := want[key]; !predicted && !port && is.PCI != "" && is.PCI[5:7] != "00" {
			wrong = append(wrong, key+" is at "+is.String()+", not predicted")
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		t.Errorf("guest %d %s: %q\n%s", seed, name, wrong, xml)
	}
	return len(want)
}
