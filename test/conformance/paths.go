package main

import (
	"regexp"
	"strconv"
	"strings"
)

// wrongPaths are paths of the reference that do not exist in the schema, with the true ones. A true path may stand for all
// fields below it, where the reference does not say which element of a list it means. The base is the path of the VMI's
// spec. If one wrong path stands for several, the message distinguishes them.
var wrongPaths = []struct {
	wrong   *regexp.Regexp
	message string
	true    string
}{
	// Causes without a path.
	{wrong: regexp.MustCompile(`^$`), message: "no memory requested", true: "BASE.domain.memory"},
	{wrong: regexp.MustCompile(`^$`), message: retiredBinding, true: "BASE.domain.devices.interfaces"},
	// Requests for volumes, which a VM has in its status: the reference judges them as if the disks were in the spec.
	{wrong: regexp.MustCompile(`^Status\.volumeRequests`), true: "status.volumeRequests"},
	{wrong: regexp.MustCompile(`^spec\.domain\.devices\.disks\[1\]\.bootOrder$`), true: "status.volumeRequests"},
	// Paths that lack their beginning or their end.
	{wrong: regexp.MustCompile(`^nameservers$`), true: "BASE.dnsConfig.nameservers"},
	{wrong: regexp.MustCompile(`^searchDomains$`), true: "BASE.dnsConfig.searches"},
	{wrong: regexp.MustCompile(`^options$`), true: "BASE.dnsConfig.options"},
	{wrong: regexp.MustCompile(`^BASE$`), message: "DHCPPrivateOptions", true: "BASE.domain.devices.interfaces"},
	{wrong: regexp.MustCompile(`^BASE\[(\d+)\]\.bootOrder$`), true: "BASE.domain.devices.interfaces[$1].bootOrder"},
	// Memory that cannot grow: the reference does not tell guest and maxGuest apart.
	{wrong: regexp.MustCompile(`^BASE\.domain\.memory\.guest$`), message: "Memory hotplug is", true: "BASE.domain.memory"},
	{wrong: regexp.MustCompile(`^BASE\.domain\.memory\.guest$`), message: "must be 2Mi aligned", true: "BASE.domain.memory"},
	{wrong: regexp.MustCompile(`^BASE\.domain\.memory\.guest$`), message: "than the configured maxGuest", true: "BASE.domain.memory"},
	// Paths of v1.7 and v1.8.
	{wrong: regexp.MustCompile(`^BASE\.spec\.`), true: "BASE."},
	{wrong: regexp.MustCompile(`^BASE\.domain\.hugepages\.size$`), true: "BASE.domain.memory.hugepages.pageSize"},
	{wrong: regexp.MustCompile(`^(BASE\.domain\.devices\.interfaces\[\d+\])\.name$`), message: "Macvtap ", true: "$1.macvtap"},
	{wrong: regexp.MustCompile(`^(BASE\.domain\.devices\.interfaces\[\d+\])\.name$`), message: "Passt feature gate", true: "$1.passt"},
	{wrong: regexp.MustCompile(`\.efi\.secureboot$`), true: ".efi.secureBoot"},
	// An index counts the devices with a claim.
	{wrong: regexp.MustCompile(`^(BASE\.domain\.devices\.(gpus|hostDevices))\[\d+\].*$`), message: "is required for DRA", true: "$1"},
	{wrong: regexp.MustCompile(`^(BASE\.domain\.devices\.(gpus|hostDevices))\[\d+\].*$`), message: "duplicate claimName/requestName", true: "$1"},
	{wrong: regexp.MustCompile(`^BASE\.domain$`), message: "SecureBoot", true: "BASE.domain.firmware.bootloader.efi"},
	// Paths that lack a part in the middle, or have the name of a Go field in the place of the API's.
	{wrong: regexp.MustCompile(`^BASE\.interfaces$`), true: "BASE.networks"},
	{wrong: regexp.MustCompile(`^BASE\.acpi`), true: "BASE.domain.firmware.acpi"},
	{wrong: regexp.MustCompile(`^BASE\.launchSecurity`), true: "BASE.domain.launchSecurity"},
	{wrong: regexp.MustCompile(`^BASE\.GPUs`), true: "BASE.domain.devices.gpus"},
	{wrong: regexp.MustCompile(`^BASE\.HostDevices`), true: "BASE.domain.devices.hostDevices"},
	{wrong: regexp.MustCompile(`^BASE\.Sound`), true: "BASE.domain.devices.sound"},
	{wrong: regexp.MustCompile(`^BASE\.video`), true: "BASE.domain.devices.video"},
	{wrong: regexp.MustCompile(`^BASE\.(node|pod|podAnti)Affinity`), true: "BASE.affinity.${1}Affinity"},
	{wrong: regexp.MustCompile(`^(BASE\.affinity\..*)\.namespace$`), true: "$1.namespaces"},
	{wrong: regexp.MustCompile(`^BASE\.topologySpreadConstraints\.labelSelector.*$`), true: "BASE.topologySpreadConstraints"},
	{wrong: regexp.MustCompile(`\.\{topologyKey, whenUnsatisfiable\}$`)},
	// Paths with a part too many, or with another name than the API's.
	{wrong: regexp.MustCompile(`^BASE\.domain\.volumes\[`), true: "BASE.volumes["},
	{wrong: regexp.MustCompile(`^(BASE\.volumes\[\d+\])\.name$`), message: "DataVolume 'name' must be set", true: "$1.dataVolume.name"},
	{wrong: regexp.MustCompile(`^BASE\.domain\.ioThreads\.count$`), true: "BASE.domain.ioThreads.supplementalPoolThreadCount"},
	{wrong: regexp.MustCompile(`hyperv\.domain\.features\.hyperv\.`), true: "hyperv."},
	{wrong: regexp.MustCompile(`disks\.domain\.devices\.disks\.disk\[(\d+)\]`), true: "disks[$1].disk"},
	{wrong: regexp.MustCompile(`disks\.domain\.devices\.disks\[`), true: "disks["},
	{wrong: regexp.MustCompile(`disks\.luns\.reservation$`), true: "disks"},
	{wrong: regexp.MustCompile(`^spec\.domain\.`), message: "discontinued", true: "BASE.domain."},
	{wrong: regexp.MustCompile(`cpu\.dedicatedCPUPlacement$`), true: "cpu.dedicatedCpuPlacement"},
	// Paths of VMs, of their instancetypes and of their data volume templates.
	{wrong: regexp.MustCompile(`^annotations\.(.*)$`), true: "spec.template.metadata.annotations[$1]"},
	{wrong: regexp.MustCompile(`^instancetype\.spec\.cpu\.guest$`), true: "spec.preference"},
	{wrong: regexp.MustCompile(`(\.cpu)\.\w+(, .*\.cpu\.\w+)+$`), true: "$1"},
	{wrong: regexp.MustCompile(`^spec\.running$`), message: "RunStrategy must be specified", true: "spec.runStrategy"},
	{wrong: regexp.MustCompile(`^spec\.dataVolumeTemplate\[(\d+)\]`), true: "spec.dataVolumeTemplates[$1]"},
	{wrong: regexp.MustCompile(`^(spec\.dataVolumeTemplates\[\d+\])\.name$`), true: "$1.metadata.name"},
	{wrong: regexp.MustCompile(`^(spec\.dataVolumeTemplates\[\d+\])\.(PVC\.Storage|source\.sourceRef|source)$`), true: "$1.spec"},
}

// retiredBinding is what the reference says of interfaces whose binding was a feature that the cluster still asks for.
const retiredBinding = "network binding is discontinued"

// truePath is where the reference's cause really is, in the object that it judged.
// All entries that match are applied in their order, each to the result of those before.
func truePath(cause cause, base string, object map[string]any) string {
	path := cause.Field
	for _, w := range wrongPaths {
		if w.message != "" && !strings.Contains(cause.Message, w.message) {
			continue
		}
		// Paths of a VM begin with spec.template.spec, and paths of a VMI with spec: one table serves both.
		marked := strings.Replace(path, base, "BASE", 1)
		if w.wrong.MatchString(marked) {
			path = strings.Replace(w.wrong.ReplaceAllString(marked, w.true), "BASE", base, 1)
		}
	}
	// A request for a volume is judged by the reference as one disk more than there are.
	if status, _ := object["status"].(map[string]any); status["volumeRequests"] != nil && existingPath(path, object) != path &&
		withinPath(path, base+".domain.devices.disks") {
		return "status.volumeRequests"
	}
	return existingPath(path, object)
}

// pathSegments returns the names and indices of a path; keys in brackets that are no numbers are names.
func pathSegments(path string) (list []string) {
	for path != "" {
		switch end := strings.IndexAny(path[1:], ".[") + 1; {
		case path[0] == '[':
			closing := strings.IndexByte(path, ']')
			if closing < 0 {
				return append(list, path)
			}
			list, path = append(list, path[:closing+1]), path[closing+1:]
		case path[0] == '.':
			path = path[1:]
		case end == 0:
			return append(list, path)
		default:
			list, path = append(list, path[:end]), path[end:]
		}
	}
	return list
}

// existingPath cuts a path after its first part that the object does not have: the place where the user has to write.
func existingPath(path string, object map[string]any) string {
	if object == nil {
		return path
	}
	var at any = object
	kept := ""
	for _, segment := range pathSegments(path) {
		kept = joinPath(kept, segment)
		next, found := stepInto(at, segment)
		if !found {
			return kept
		}
		at = next
	}
	return path
}

// joinPath returns a path with one more segment; an index or a key in brackets has no dot before it.
func joinPath(path, segment string) string {
	if path == "" || segment[0] == '[' {
		return path + segment
	}
	return path + "." + segment
}

// stepInto returns what an object or a list has at a segment; false if there is nothing, or null.
func stepInto(at any, segment string) (any, bool) {
	switch value := at.(type) {
	case map[string]any:
		next, found := value[strings.Trim(segment, "[]")]
		return next, found && next != nil
	case []any:
		index, err := strconv.Atoi(strings.Trim(segment, "[]"))
		// The reference names indices that do not exist, such as the index of a disk that a volume request would add.
		if err != nil || index < 0 || index >= len(value) {
			return nil, false
		}
		return value[index], true
	}
	return nil, false
}

// withinPath reports whether a path is another one or below it.
func withinPath(path, root string) bool {
	rest, found := strings.CutPrefix(path, root)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
