package validate

import (
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.cpu.model.
// libvirt refuses a model that it does not know when the guest starts. Which ones it knows depends on its version, so that an unknown model brings a warning
// with the nearest name, and no refusal. arm64 has rule cpu/model-arm64 instead.

// modelNames are the models by architecture, without versions such as '-v2', which newer libvirt has. For amd64 they are libvirt's models (src/cpu_map: all of
// 9.0, and the models in its sources of 2025), for s390x QEMU's ('qemu-system-s390x -cpu help' of 7.2, and gen17 of 10.0), each of which has a '-base', too.
var modelNames = map[string]string{
	"amd64": `486 pentium pentium2 pentium3 pentiumpro coreduo n270 core2duo qemu32 kvm32 cpu64-rhel5 cpu64-rhel6 qemu64 kvm64
		Conroe Penryn Nehalem Nehalem-IBRS Westmere Westmere-IBRS SandyBridge SandyBridge-IBRS IvyBridge IvyBridge-IBRS
		Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS
		Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS
		Cascadelake-Server Cascadelake-Server-noTSX Icelake-Client Icelake-Client-noTSX Icelake-Server Icelake-Server-noTSX
		Cooperlake Snowridge Denverton KnightsMill SapphireRapids GraniteRapids SierraForest ClearwaterForest DiamondRapids YongFeng
		athlon phenom Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 EPYC EPYC-IBPB EPYC-IBRS EPYC-Rome EPYC-Milan EPYC-Genoa
		EPYC-Turin Dhyana`,
	s390x: `qemu max z900 z900.2 z900.3 z800 z990 z990.2 z990.3 z890 z990.4 z890.2 z990.5 z890.3 z9EC z9EC.2 z9BC z9EC.3 z9BC.2 z10EC z10EC.2 z10BC
		z10EC.3 z10BC.2 z196 z196.2 z114 zEC12 zEC12.2 zBC12 z13 z13.2 z13s z14 z14.2 z14ZR1 gen15a gen15b gen16a gen16b gen17a gen17b`,
}

// models are the names of modelNames, which are never changed.
var models = map[string][]string{"amd64": strings.Fields(modelNames["amd64"]), s390x: strings.Fields(modelNames[s390x])}

// modelVersion is the end of a model of one version, or of a mainframe's model with the features of all of its kind alone.
var modelVersion = regexp.MustCompile(`(-v[0-9]+|-base)$`)

// modelHint returns the nearest name of a model that the architecture does not have; known is true where it has it, or where nothing is known of it.
func modelHint(architecture, model string) (nearest string, known bool) {
	names := models[architecture]
	if model == "" || model == v1.CPUModeHostModel || model == v1.CPUModeHostPassthrough || names == nil {
		return "", true
	}
	bare := modelVersion.ReplaceAllString(model, "")
	const longest = 64 // the distance takes time by the product of lengths
	least := len(bare)/3 + 1
	for _, name := range names {
		if name == bare {
			return "", true
		}
		if len(bare) > longest {
			continue
		}
		if distance := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(bare)); distance < least {
			nearest, least = name, distance
		}
	}
	return nearest, false
}

// modelWarning is empty for a model that is known. field names the model in its object.
func modelWarning(architecture, field, model string) string {
	nearest, known := modelHint(architecture, model)
	switch {
	case known:
		return ""
	case nearest != "":
		return field + " '" + short(model) + "': libvirt knows no such CPU model; did you mean '" + nearest + "'?"
	}
	return field + " '" + short(model) + "': libvirt knows no such CPU model for '" + architecture + "'"
}
