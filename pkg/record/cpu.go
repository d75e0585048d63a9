package record

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// Requests of spec.domain.cpu.model that are no model. KubeVirt's API has the same constants.
const (
	hostModel       = "host-model"
	hostPassthrough = "host-passthrough"
)

const (
	// leastPhysicalBits and mostPhysicalBits are the limits of x86: AMD64 has at most 52 bits, and QEMU's CPU models have at least 32.
	leastPhysicalBits, mostPhysicalBits = 32, 52
)

// Names of libvirt's cpu_map, and of CPU models of QEMU.
var (
	cpuModelForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	cpuFeatureForm = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._-]{0,63}$`)
)

func checkCPU(c *CPU, f *findings) {
	if c == nil {
		return
	}
	f.addFinding("cpu.requested", c.Requested, matchForm(cpuModelForm, c.Requested, "host-model, host-passthrough or a CPU model"))
	f.addFinding("cpu.model", c.Model, checkCPUModel(c.Model))
	if c.Vendor != "" {
		f.addFinding("cpu.vendor", c.Vendor, matchForm(cpuModelForm, c.Vendor, "a vendor of CPUs such as 'AMD'"))
	}
	f.addFinding("cpu.features", len(c.Features), checkCPUFeatures(c.Features))
	f.addFinding("cpu.disabledFeatures", len(c.DisabledFeatures), checkCPUFeatures(c.DisabledFeatures))
	for _, name := range c.DisabledFeatures {
		if _, both := slices.BinarySearch(c.Features, name); both {
			f.addFinding("cpu.disabledFeatures", name, errors.New("must not be in features too"))
		}
	}
	if c.PhysicalBits != 0 {
		f.addFinding("cpu.physicalBits", c.PhysicalBits, checkRange(c.PhysicalBits, leastPhysicalBits, mostPhysicalBits))
	}
	for _, count := range []struct {
		name  string
		value uint
	}{{"sockets", c.Topology.Sockets}, {"cores", c.Topology.Cores}, {"threads", c.Topology.Threads}} {
		f.addFinding("cpu.topology."+count.name, count.value, checkRange(count.value, 1, mostCPUs))
	}
}

const likeFeature = "a feature of CPUs such as 'avx2'"

// checkCPUModel judges a model. The modes are no models: libvirt would look for a model of that name.
func checkCPUModel(name string) error {
	if name == hostModel || name == hostPassthrough {
		return errors.New("must be a CPU model and not a mode")
	}
	return matchForm(cpuModelForm, name, "a CPU model such as 'EPYC-Rome'")
}

// checkCPUFeatures returns an error for the first name that libvirt cannot have, or that is not in order.
func checkCPUFeatures(names []string) error {
	if len(names) > v1alpha1.MostCPUFeatures {
		return fmt.Errorf("must have at most %d entries", v1alpha1.MostCPUFeatures)
	}
	for i, name := range names {
		if !cpuFeatureForm.MatchString(name) {
			return fmt.Errorf("[%d] '%s' must be %s", i, printable(name, longestValue), likeFeature)
		}
		if i > 0 && names[i-1] >= name {
			return fmt.Errorf("[%d] '%s' must come after '%s'", i, name, names[i-1])
		}
	}
	return nil
}

// CheckReportedCPU returns an error for a CPU that no libvirt reports. A tenant may have written it.
func CheckReportedCPU(c *v1alpha1.ReportedCPU) error {
	var f findings
	f.addFinding("model", c.Model, checkCPUModel(c.Model))
	if c.Vendor != "" {
		f.addFinding("vendor", c.Vendor, matchForm(cpuModelForm, c.Vendor, "a vendor of CPUs such as 'AMD'"))
	}
	f.addFinding("features", len(c.Features), checkCPUFeatures(c.Features))
	f.addFinding("disabledFeatures", len(c.DisabledFeatures), checkCPUFeatures(c.DisabledFeatures))
	return f.asError()
}

// CheckCPU returns an error for a recorded CPU that no boot can have written.
func CheckCPU(c *CPU) error {
	var f findings
	checkCPU(c, &f)
	return f.asError()
}

// compareCPUs returns what a guest notices of another CPU. Without a record of either there is nothing to compare.
func compareCPUs(before, after *CPU) (changes []Change) {
	if before == nil || after == nil {
		return nil
	}
	if text := DescribeCPUChange(before, after); text != "" {
		changes = append(changes, Change{Part: PartCPU, Text: PartCPU.Changes() + ": " + text, Verdict: PartCPU.Verdict()})
	}
	if before.Topology != after.Topology {
		text := fmt.Sprintf("%s from %s to %s", PartTopology.Changes(), topologyText(before.Topology), topologyText(after.Topology))
		changes = append(changes, Change{Part: PartTopology, Text: text, Verdict: PartTopology.Verdict()})
	}
	return changes
}

func topologyText(t Topology) string {
	return fmt.Sprintf("%d sockets, %d cores, %d threads", t.Sockets, t.Cores, t.Threads)
}

// DescribeCPUChange says which model, features and width of addresses differ between two CPUs; empty if none. Topologies are not compared.
func DescribeCPUChange(before, after *CPU) string {
	var texts []string
	if before.Model != after.Model {
		texts = append(texts, fmt.Sprintf("the model from '%s' to '%s'", before.Model, after.Model))
	}
	if before.Vendor != after.Vendor && before.Vendor != "" && after.Vendor != "" {
		texts = append(texts, fmt.Sprintf("the vendor from '%s' to '%s'", before.Vendor, after.Vendor))
	}
	gained, lost := without(after.Features, before.Features), without(before.Features, after.Features)
	if before.Model == after.Model { // a model that is the same has a disabled feature otherwise
		gained = union(gained, without(before.DisabledFeatures, after.DisabledFeatures))
		lost = union(lost, without(after.DisabledFeatures, before.DisabledFeatures))
	}
	if len(lost) > 0 {
		texts = append(texts, "without "+ListFeatures(lost))
	}
	if len(gained) > 0 {
		texts = append(texts, "with "+ListFeatures(gained))
	}
	if before.PhysicalBits != after.PhysicalBits {
		texts = append(texts, fmt.Sprintf("physical addresses from %s to %s", bitsText(before.PhysicalBits), bitsText(after.PhysicalBits)))
	}
	return strings.Join(texts, ", ")
}

func bitsText(bits uint) string {
	if bits == 0 {
		return "the model's default"
	}
	return fmt.Sprintf("%d bits", bits)
}

// mostListed is the number of features that a text names.
const mostListed = 12

// ListFeatures returns features as messages write them: the first dozen by name, and the number of the others.
func ListFeatures(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more features", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}

// without returns the names of one sorted list that another sorted list lacks.
func without(names, others []string) (left []string) {
	for _, name := range names {
		if _, found := slices.BinarySearch(others, name); !found {
			left = append(left, name)
		}
	}
	return left
}

// union returns the names of two sorted lists, sorted and each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
