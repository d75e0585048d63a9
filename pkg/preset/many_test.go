package preset

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// numbered are presets that match and set CPUs.
func numbered(n int, cores func(int) int) (all []v1.VirtualMachineInstancePreset) {
	for i := range n {
		all = append(all, preset(fmt.Sprintf("p%05d", i), v1.DomainSpec{CPU: &v1.CPU{Cores: uint32(cores(i))}}))
	}
	return all
}

func TestAtMost64Match(t *testing.T) {
	alike := func(int) int { return 2 }
	if _, errs := apply(numbered(MaxMatching, alike), web()); len(errs) > 0 {
		t.Errorf("%d presets: %v", MaxMatching, errs)
	}
	vmi := web()
	_, errs := apply(numbered(2000, alike), vmi)
	if len(errs) != 1 || errs[0].Type != "FieldValueTooMany" || errs[0].Field != "metadata.labels" || vmi.Spec.Domain.CPU != nil {
		t.Fatalf("2000 presets: %v", errs)
	}
	for _, want := range []string{"2000 presets match", "at most 64", "'p00000', 'p00001'", " more"} {
		if !strings.Contains(errs[0].Detail, want) {
			t.Errorf("'%s' lacks '%s'", errs[0].Detail, want)
		}
	}
	if len(errs[0].Detail) > 2000 {
		t.Errorf("a text of %d bytes", len(errs[0].Detail))
	}
	elsewhere := numbered(2000, alike)
	for i := range elsewhere[1:] {
		elsewhere[i+1].Spec.Selector.MatchLabels = map[string]string{"tier": "db"}
	}
	if _, errs := apply(elsewhere, web()); len(errs) > 0 {
		t.Errorf("one of 2000 matches: %v", errs)
	}
}

// Each preset is compared with the first that sets an area: one that disagrees with all others is one mistake.
func TestDisagreementsAreOneForEachPreset(t *testing.T) {
	for _, test := range []struct {
		name  string
		cores func(int) int
		want  int
	}{
		{"all alike", func(int) int { return 2 }, 0},
		{"each another", func(i int) int { return i + 1 }, 9},
		{"the last another", func(i int) int { return 1 + i/9 }, 1},
		{"the first another", func(i int) int { return min(i, 1) }, 9},
	} {
		_, errs := apply(numbered(10, test.cores), web())
		if len(errs) != test.want {
			t.Errorf("%s: %d mistakes, want %d: %v", test.name, len(errs), test.want, errs)
		}
		for _, err := range errs {
			if !strings.Contains(err.Detail, "presets 'p00000' and 'p0000") {
				t.Errorf("%s: %s", test.name, err.Detail)
			}
		}
	}
}

// Twice the presets cost twice as much, whether or not they agree.
func TestComparisonIsLinear(t *testing.T) {
	for name, cores := range map[string]func(int) int{"alike": func(int) int { return 2 }, "each another": func(i int) int { return i + 1 }} {
		cost := func(n int) float64 {
			all := numbered(n, cores)
			return testing.AllocsPerRun(5, func() { findDisagreements(all) })
		}
		if small, large := cost(100), cost(400); large > 6*small {
			t.Errorf("%s: 100 presets take %.0f allocations, 400 take %.0f", name, small, large)
		}
	}
}

// A message has the first part of a value of a megabyte, and not one for each preset.
func TestDisagreementsAreBounded(t *testing.T) {
	var all []v1.VirtualMachineInstancePreset
	for i := range MaxMatching {
		arguments := strings.Repeat(fmt.Sprint(i%10), 1<<20)
		all = append(all, preset(fmt.Sprintf("p%02d", i), v1.DomainSpec{Firmware: &v1.Firmware{KernelBoot: &v1.KernelBoot{KernelArgs: arguments}}}))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, errs := apply(all, web())
	runtime.ReadMemStats(&after)
	size := 0
	for _, err := range errs {
		size += len(err.Error())
	}
	if len(errs) == 0 || size > 256<<10 {
		t.Errorf("%d mistakes with %d bytes", len(errs), size)
	}
	t.Logf("%d mistakes, %d KiB of text, %d MiB allocated", len(errs), size>>10, (after.TotalAlloc-before.TotalAlloc)>>20)
}
