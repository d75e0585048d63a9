package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// replayConvert compares what the guest sees of every device, CPU, memory, firmware, feature and clock. The VMI was admitted by the
// reference; one that Kiln admits too must be rendered.
func replayConvert(c record, cluster config.Cluster) outcome {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(c.VMI, vmi); err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	refused, err := reviewVMI(vmi, cluster, "")
	if err != nil {
		return differingOutcome("fault: %v", err)
	}
	if len(refused) > 0 {
		return refusedGuest(c, answer{errs: refused})
	}
	// Both refuse: agreement, whatever the two messages say.
	rendered, errs := render.Domain(c.Context.renderMachine(vmi, cluster.Frontend))
	switch {
	case len(errs) > 0 && c.Expect.Error != "":
		return outcome{agrees: true}
	case c.Expect.Error != "":
		return differingOutcome("rendered: the reference says %s", c.Expect.Error)
	}
	var want libvirtxml.Domain
	// The reference's XML is what KubeVirt's converter writes before libvirt completes it, so that it lacks what libvirt adds (see added).
	if err := want.Unmarshal(hostdevKind.ReplaceAllString(c.Expect.XML, `<hostdev mode="subsystem" type=`)); err != nil {
		return differingOutcome("unreadable: %v", err)
	}
	if len(errs) > 0 {
		o := differingOutcome("refused: %s %s", errs[0].Field, errs[0].Detail)
		// Only if this is the sole error: a second one would be hidden by the listed deviation.
		if len(errs) == 1 && withoutFirmware(vmi, errs[0], &want) {
			o.listed = emptyBootloader
		}
		return o
	}
	return c.compareDomains(vmi, seenFacts(&want), seenFacts(rendered.Frontend))
}

// refusedGuest agrees when the reference could not render the VMI either.
func refusedGuest(c record, given answer) outcome {
	if c.Expect.Error != "" {
		return outcome{agrees: true}
	}
	c.Expect.Allowed = true
	return compareVerdicts(c, c.VMI, given)
}

// hostdevKind: libvirt knows no other mode than subsystem for these devices, and libvirtxml needs it in the document.
var hostdevKind = regexp.MustCompile(`<hostdev type=`)

// compareDomains compares the facts of two domains. It agrees if all are equal, lists the first deviation if every difference has one, and else
// returns the first fact that has none.
func (c record) compareDomains(vmi *v1.VirtualMachineInstance, want, got map[string]string) outcome {
	if want["memory KiB at most"] != "" && want["cell 0"] == "" {
		want["cell 0"] = wholeCell(want) // libvirt has no memory to be added without a cell
	}
	o := outcome{agrees: true}
	for _, name := range slices.Sorted(maps.Keys(mergedKeys(want, got))) {
		d := domainDifference{name, want[name], got[name]}
		// What Kiln adds must be known by its value (added) or by its name (isDerivedFact). What it leaves out is always a difference.
		if d.want == d.got || d.want == "" && (d.got == added[name] || isDerivedFact(name)) {
			continue
		}
		i := slices.IndexFunc(domainDeviations, func(known domainDeviation) bool { return known.explains(vmi, d) })
		if i < 0 {
			return differingOutcome("%s: want %s, got %s", name, d.want, d.got)
		}
		if o.agrees {
			o = outcome{listed: domainDeviations[i].name}
		}
	}
	return o
}

// added is what libvirt adds to the reference's document, and Kiln writes itself.
var added = map[string]string{
	"clock": "utc", "feature gic": "3", "input mouse on ps2": "1", "input keyboard on ps2": "1", "panic s390": "given",
	"feature ioapic": "qemu", "iommu": "intel", // of guests of more than 255 CPUs, since libvirt 10.10
}

// wholeCell is the only NUMA node of a VMI.
func wholeCell(facts map[string]string) string {
	_, most, _ := strings.Cut(facts["vCPUs"], " of ")
	last, err := strconv.Atoi(most)
	if err != nil || last == 0 {
		return ""
	}
	cpus := "0"
	if last > 1 {
		cpus = fmt.Sprintf("0-%d", last-1)
	}
	return cpus + " " + facts["memory KiB"]
}

// generationID is the name of the fact that there is a VM Generation ID. Its presence is compared, and not its value.
const generationID = "generation ID"

// isDerivedFact reports whether Kiln gives the fact to every VMI, and the reference's converter leaves it to others if the user wrote none.
func isDerivedFact(name string) bool {
	return strings.HasPrefix(name, addressOf) || strings.HasPrefix(name, macOf) || name == "system serial" || name == generationID
}

// mergedKeys returns a map that has the keys of both; its values are of no use.
func mergedKeys(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
