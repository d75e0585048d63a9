package commoncpu

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// generations are the CPU models of libvirt and QEMU by the vendor in the labels of nodes, the oldest first. The names are libvirt's (src/cpu_map of libvirt
// 9.0 to 11.10), and for s390x QEMU's (target/s390x/cpu_models.c), without the suffixes of variants. A host offers models of other vendors, too, as far as
// they need only what its own CPU has. The guest would see the wrong vendor then, so only models of the nodes' vendor count. A model that is not in the list
// does not count either, because nobody knows whether it is newer than another.
var generations = map[string][]string{
	"Intel": {
		"Conroe", "Penryn", "Nehalem", "Westmere", "Denverton", "Snowridge", "SandyBridge", "IvyBridge", "Haswell", "Broadwell", "Skylake-Client",
		"Skylake-Server", "Cascadelake-Server", "Cooperlake", "Icelake-Client", "Icelake-Server", "SapphireRapids", "SierraForest", "GraniteRapids",
		"ClearwaterForest", "DiamondRapids",
	},
	"AMD":   {"Opteron_G1", "Opteron_G2", "Opteron_G3", "Opteron_G4", "Opteron_G5", "EPYC", "EPYC-Rome", "EPYC-Milan", "EPYC-Genoa", "EPYC-Turin"},
	"Hygon": {"Dhyana"},
	vendorOfS390X: {
		"z9BC", "z9BC.2", "z9EC", "z9EC.2", "z9EC.3", "z10BC", "z10BC.2", "z10EC", "z10EC.2", "z10EC.3", "z114", "z196", "z196.2", "zBC12", "zEC12",
		"zEC12.2", "z13s", "z13", "z13.2", "z14ZR1", "z14", "z14.2", "gen15b", "gen15a", "gen16b", "gen16a", "gen17b", "gen17a",
	},
}

// vendorOfS390X is what KubeVirt's node-labeller writes for s390x, because libvirt names no vendor there.
const vendorOfS390X = "IBM"

// generic are the models of QEMU that every x86 CPU has, the older one first. They are older than all others.
var generic = []string{"qemu64", "kvm64"}

var versionSuffix = regexp.MustCompile(`-v([1-9][0-9]?)$`)

// age orders the models of a vendor. The first difference decides, and a newer model is greater.
type age [5]int

// ageOf returns the age of a model among the models of a vendor; false if it does not count. Among variants of one generation, a name without a version is
// preferred, because every version of libvirt has it; then the latest version; then mitigations of speculation (IBRS, IBPB); then TSX, and for s390x the model
// that is not '-base'.
func ageOf(vendor, model string) (a age, counts bool) {
	name := model
	if of := versionSuffix.FindStringSubmatch(name); of != nil {
		name = strings.TrimSuffix(name, of[0])
		a[2], _ = strconv.Atoi(of[1])
	} else {
		a[1] = 1
	}
	plain := name
	for _, suffix := range []string{"-IBRS", "-IBPB"} {
		plain = strings.TrimSuffix(plain, suffix)
	}
	if plain != name {
		a[3] = 1
	}
	name = plain
	for _, suffix := range []string{"-noTSX", "-base"} {
		plain = strings.TrimSuffix(plain, suffix)
	}
	if plain == name {
		a[4] = 1
	}
	if at := slices.Index(generations[vendor], plain); at >= 0 {
		a[0] = len(generic) + at
		return a, true
	}
	a[0] = slices.Index(generic, model)
	return a, vendor != vendorOfS390X && a[0] >= 0
}

// compareModels returns -1 if the first model of a vendor is older than the other, and 1 if it is newer.
func compareModels(vendor, one, other string) int {
	a, _ := ageOf(vendor, one)
	b, _ := ageOf(vendor, other)
	return cmp.Or(slices.Compare(a[:], b[:]), cmp.Compare(one, other))
}

// IsOlder reports whether the first model of a vendor is older than the other. A model that does not count is older than all that do.
func IsOlder(vendor, one, other string) bool { return compareModels(vendor, one, other) < 0 }
