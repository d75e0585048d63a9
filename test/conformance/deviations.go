package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// deviation is a difference that docs/reference/deviations.md lists under the same name. It explains errors that only Kiln has and
// causes that only the reference has, by what the case and the answer are, never by the name of a case.
type deviation struct {
	name string
	// since and until are the first and the last version of KubeVirt whose answers differ; 0 for no bound.
	since, until config.Version
	added        func(judged, *field.Error) bool
	missing      func(judged, cause) bool
}

var deviations = []deviation{
	{name: "What is unknown is not judged", missing: func(j judged, c cause) bool {
		relative, found := strings.CutPrefix(truePath(c, j.base, j.object), j.base+".")
		smm := strings.Contains(c.Message, "SecureBoot requires SMM")
		return j.unknown.size && (found && sizeSubjects.MatchString(relative) || strings.Contains(c.Message, requirement) || smm) ||
			j.unknown.preference && (found && preferenceSubjects.MatchString(relative) || smm || mended.MatchString(c.Message))
	}},
	{name: noCPUs, missing: func(j judged, c cause) bool {
		return c.Field == j.base+".domain.cpu.sockets" && j.countsNothing() // of which the reference makes four billion
	}, added: func(j judged, err *field.Error) bool {
		return err.Field == j.base+".domain.cpu.sockets" && j.countsNothing()
	}},
	{name: "Inference from snapshots", until: 8, missing: func(j judged, c cause) bool {
		return strings.Contains(c.Message, "unable to infer defaults from Data") && j.infersFromSnapshot()
	}},
	{name: "Inference from what does not exist yet", missing: func(j judged, c cause) bool {
		return (j.unknown.size || j.unknown.preference) &&
			(strings.HasSuffix(c.Message, " not found") || strings.HasSuffix(c.Message, "DataVolumeSource is not supported")) &&
			(j.hasValue("spec.instancetype.inferFromVolume") || j.hasValue("spec.preference.inferFromVolume"))
	}},
	{name: "Requests for volumes", missing: func(j judged, c cause) bool {
		return j.hasValue("status.volumeRequests") && (strings.Contains(c.Message, "while VMI migration is in progress") ||
			strings.Contains(c.Message, "on currently running vmi"))
	}},
	{name: partialCPUs, missing: func(j judged, c cause) bool {
		return strings.Contains(c.Message, requirement) && countsZero(c.Message) && j.hasValue(j.base+".domain.cpu")
	}},
	{name: "Requests of presets", missing: func(j judged, c cause) bool {
		return strings.Contains(c.Message, "VirtualMachinePresets cannot be applied") && j.presetsRespell()
	}},
	{name: "Clock offsets of presets", missing: func(j judged, c cause) bool {
		return strings.Contains(c.Message, "VirtualMachinePresets cannot be applied") && j.clocksDiffer()
	}},
	{name: unspreadable, missing: func(j judged, c cause) bool {
		return c.Field == "instancetype.spec.cpu.guest" && strings.HasPrefix(c.Message, "1 vCPUs")
	}},
	{name: "One mistake, one cause", missing: func(j judged, c cause) bool {
		path := truePath(c, j.base, j.object)
		if strings.Contains(c.Message, "only available for x86_64") && j.hasErrorAt(j.base+".architecture") {
			return true // an architecture that does not exist is the mistake
		}
		claim := claimElement.FindString(path)
		if claim != "" && slices.ContainsFunc(j.errs, func(err *field.Error) bool { return withinPath(err.Field, claim) }) {
			return true // a claim with two sources: one of them goes
		}
		if strings.Contains(c.Message, "must be referenced in the VMI template's 'volumes' list") && slices.ContainsFunc(j.errs, func(err *field.Error) bool {
			return volumeReference.MatchString(err.Field)
		}) {
			return true // a volume that names no DataVolume uses no template, too
		}
		if strings.HasPrefix(c.Message, "Invalid RunStrategy") && slices.ContainsFunc(j.errs, ofRule("vm/running-and-strategy")) {
			return true // one of the two goes
		}
		if strings.Contains(c.Message, "must specify all claims") && slices.ContainsFunc(j.errs, func(err *field.Error) bool {
			return err.Origin == "hostdevices/request-claim" || err.Origin == "hostdevices/request-name"
		}) {
			return true // an incomplete request
		}
		return len(j.errs) > 0 && slices.ContainsFunc(j.all, func(err *field.Error) bool { return withinPath(err.Field, path) || j.namesCause(err, c) })
	}},
	{name: "Kinds that are none", added: errorOfRule("vm/matcher-kind")},
	{name: "`revisionName` of nothing", added: errorOfRule("vm/revision-missing")},
	{name: "`revisionName` of another object", added: errorWithText(`^spec\.(instancetype|preference)\.revisionName$`, ""),
		missing: func(j judged, _ cause) bool {
			return j.hasErrorAt("spec.instancetype.revisionName") || j.hasErrorAt("spec.preference.revisionName")
		}},
	{name: "An input without a type", missing: func(j judged, c cause) bool {
		return inputType.MatchString(c.Field) && j.VM != nil && j.valueAt(c.Field) == ""
	}},
	{name: "The machine type of one architecture", missing: func(j judged, c cause) bool {
		machine, _ := j.valueAt(c.Field).(string)
		return c.Field == j.base+".domain.machine.type" && machine == ""
	}},
	{name: "Fields that no pod takes", added: errorOfRule("placement/subdomain", "placement/node-selector", "placement/node-value",
		"placement/pod-label-keys",
		"placement/spread-label-keys", "placement/spread-domains", "placement/toleration-key", "placement/toleration-value", "placement/toleration-no-value",
		"placement/toleration-operator", "placement/toleration-effect", "placement/toleration-all", "placement/toleration-seconds", "placement/priority-class",
		"placement/probe-port", "placement/probe-command", "placement/probe-header", "placement/probe-number", "placement/probe-scheme",
		"placement/liveness-success", "placement/probe-handler", "placement/probe-handlers",
		"resources/limit-negative")},
	{name: "A limit and the request that it becomes", missing: func(j judged, c cause) bool {
		limit := strings.Replace(c.Field, ".resources.requests.", ".resources.limits.", 1)
		request := j.valueAt(c.Field)
		return limit != c.Field && j.hasErrorAt(limit) && (request == nil || request == j.valueAt(limit))
	}},
	{name: ceilingConflict, added: errorWithText(`\.cpu\.maxSockets$`, "conflicts with")},
	{name: "Empty words", missing: func(j judged, c cause) bool {
		path, _, schema := strings.Cut(c.Message, " in body should be one of")
		return schema && slices.Contains(valuesAtSchemaPath(j.object, path), "")
	}},
	{name: "Empty lists", missing: func(j judged, c cause) bool {
		list := ""
		if nic, named := strings.CutSuffix(c.Field, ".name"); named && strings.Contains(c.Message, "both ports and portRanges") {
			list = nic + ".ports"
		} else if strings.HasSuffix(c.Field, ".HostDevices") {
			list = j.base + ".domain.devices.hostDevices"
		}
		elements, is := j.valueAt(list).([]any)
		return is && len(elements) == 0
	}},
	{name: "Memory of nothing", added: errorWithText(`\.domain\.memory(\.(guest|maxGuest|hugepages\.pageSize))?$`, "greater than 0")},
	{name: "Huge pages of no architecture", added: errorOfRule("memory/page-size-architecture", "instancetype/page-size")},
	{name: "Memory that a preference requires", added: errorOfRule("preference/memory")},
	{name: "Less time than nothing", added: errorOfRule("placement/grace-period", "preference/grace-period")},
	{name: "Names of no domain", added: errorOfRule("metadata/domain-name")},
	{name: "`hypervPassthrough` without `enabled`", added: errorOfRule("features/hyperv-passthrough-enabled")},
	{name: "A matcher without a name", added: func(_ judged, err *field.Error) bool {
		return err.Origin == "vm/matcher-name" || matcherName.MatchString(err.Field) && strings.Contains(err.Detail, nearest.NoObject)
	}},
	{name: "Obsolete instancetypes and preferences", added: errorWithText(`^spec\.(instancetype|preference)\.name$`, " is obsolete")},
	{name: "Memory without a unit", added: errorWithText(`\.memory(\.\w+)*$`, "must be at least ")},
	{name: "Metadata of templates", added: errorWithText(`^spec\.(template|dataVolumeTemplates\[\d+\])\.metadata\.(labels|annotations)\[`,
		"consist of alphanumeric characters")},
	{name: "A VM", added: func(j judged, err *field.Error) bool {
		return j.VM != nil && len(j.Presets) > 0 && !j.hasValue(err.Field) // a preset has filled it
	}},
	{name: "The quote service of a TDX guest", since: 9, added: errorOfRule("security/quote-socket")},
	{name: "Annotations of `kilnvm.io`", added: errorWithText(`metadata\.annotations\[kilnvm\.io/`, "")},
	{name: "Claims without a request", until: 7, added: errorOfRule("hostdevices/request-name")},
	{name: "Port 65536", until: 8, added: errorWithText(`\.ports\[\d+\]\.port$`, "between 1 and 65535")},
	{name: "EFI on s390x", added: errorOfRule("firmware/efi-s390x")},
	{name: "VMIs that mirror NUMA nodes do not grow", added: errorOfRule("memory/numa-growth", "memory/numa-pages")},
	{name: "ACPI indices", added: errorOfRule("networks/acpi-index")},
	{name: "A memory dump is no disk", missing: func(j judged, c cause) bool {
		return withinPath(c.Field, j.base+".domain.devices.disks") && j.isDiskOfDump(c.Field)
	}, added: errorOfRule("disks/memory-dump")},
	{name: "What a mainframe lacks", added: errorOfRule("devices/s390x", "devices/input-bus-s390x", "disks/bus-s390x", "hostdevices/s390x")},
	{name: mainframeCards, added: func(j judged, err *field.Error) bool {
		return err.Origin == "networks/model" && j.architectureOfVMI() == "s390x"
	}},
	{name: "Names of devices", added: errorOfRule("devices/name", "devices/name-form", "devices/name-twice", "devices/panic-twice", "cpu/feature-name")},
	{name: "Panic devices of a PC", added: func(j judged, err *field.Error) bool {
		return err.Origin == "devices/panic-model" && j.architectureOfVMI() == "arm64"
	}},
	{name: "PCI addresses that no guest has", added: errorOfRule("devices/pci-address")},
	{name: "More vCPUs than any machine has", added: errorOfRule("cpu/most")},
	{name: "Values that libvirt does not take", added: errorOfRule("cpu/feature-twice", "cpu/realtime-mask", "devices/watchdog-action",
		"disks/empty-disk-capacity", "disks/lun-bus",
		"features/hyperv-spinlocks", "features/hyperv-vendor-id", "firmware/uuid", "machine/board")},
	{name: "Volumes that no pod mounts", added: errorOfOrigin("disks/volume-object", "disks/volume-object-name", "disks/sysprep-source",
		"disks/container-disk-image", "disks/downward-api", "security/credential-secret")},
	{name: "Resources of device plugins", added: func(j judged, err *field.Error) bool {
		return pluginResource.MatchString(err.Field) && strings.HasPrefix(err.Detail, "must not be ") || errorOfOrigin("resources/name", "resources/whole",
			"resources/limit-equal", "hostdevices/device-name", "hostdevices/request-form", "networks/claim-request-form")(j, err)
	}},
	{name: "Huge pages of no whole KiB", added: errorWithText(`\.hugepages\.pageSize$`, "KiB")},
	{name: "Unknown reboot policies", since: 8, added: errorOfRule("machine/reboot-policy")},
	{name: "VMs are judged as they will boot", missing: func(j judged, c cause) bool {
		loader, _ := j.valueAt(j.base + ".domain.firmware.bootloader.efi").(map[string]any)
		return strings.Contains(c.Message, "SecureBoot requires SMM") && loader["secureBoot"] == nil &&
			j.architectureOfVMI() == "arm64" // whose default is no Secure Boot
	}, added: func(j judged, err *field.Error) bool {
		if j.Operation == "UPDATE" && strings.HasPrefix(err.Origin, "networks/") { // the reference judges these only on creation
			return true
		}
		written := slices.Contains(defaultRules, err.Origin) && j.hasValue(diskPath.FindString(err.Field)+".disk.bus")
		onlyVMIs := validate.KubeVirtOn(err.Origin) == validate.KubeVirtRefusesVMI || err.Origin == "features/evmcs-vmx-policy"
		implicit := err.Origin == "networks/model" && !j.hasValue(j.base+".domain.devices.interfaces") || // the interface that each guest gets
			err.Origin == "machine/architecture-gate" && !j.hasValue(j.base+".architecture") // the architecture of the image
		return j.VM != nil && (onlyVMIs && !written || implicit)
	}},
	{name: "Hardware that cannot be had", added: errorOfOrigin("clock/timer", "features/architecture", "firmware/secure-boot-arm64", "firmware/serial-s390x",
		"networks/acpi-index-twice", "networks/mac-multicast", "networks/mac-zero")},
	{name: "A clock in a time zone", added: errorOfOrigin("clock/timezone", "clock/offsets")},
	{name: "Serial numbers that the guest sees in part", added: errorOfRule("disks/serial-shown")},
	{name: "Settings that exclude each other", added: errorOfOrigin("disks/io-cache", "disks/shared-volume", "firmware/efi-acpi", "firmware/serial-port",
		"memory/guest-max")},
	{name: "Ignition", added: errorOfOrigin("security/ignition-architecture")},
	{name: "Words that libvirt does not know", added: errorOfOrigin("clock/word")},
	{name: impossible, added: func(j judged, err *field.Error) bool {
		cpu := j.base + ".domain.cpu"
		return j.impossiblePreference() && slices.Contains([]string{"spec.preference", cpu, cpu + ".sockets"}, err.Field)
	}, missing: func(j judged, c cause) bool {
		return j.impossiblePreference() && c.Field == "" && strings.Contains(c.Message, requirement)
	}},
}

// Deviations of instancetypes and preferences, of verdicts and objects alike.
const (
	unspreadable = "A number of vCPUs that cannot be spread"
	impossible   = "A preference that cannot exist"
)

// mainframeCards is the deviation of network cards on s390x.
const mainframeCards = "Network cards of a mainframe"

// partialCPUs is the deviation of VMIs that give some of their CPU counts, of which the reference takes the others for 0.
const partialCPUs = "A CPU topology given in part"

// countsZero reports whether the reference took an absent number of sockets, cores or threads for 0.
func countsZero(message string) bool { return strings.Contains(message, "CPU resources of 0 vCPU") }

// requirement is how the reference begins what a preference requires and the VMI lacks.
const requirement = "checking preference requirements"

var (
	inputType = regexp.MustCompile(`\.inputs\[\d+\]\.type$`)
	// What an instancetype, or a preference, may give or decide that is not known yet.
	sizeSubjects       = regexp.MustCompile(`^(domain\.(cpu|memory|resources|launchSecurity)\b|(domain\.devices\.(gpus|hostDevices)|resourceClaims)$)`)
	preferenceSubjects = regexp.MustCompile(`^domain\.(launchSecurity\b|machine\.type$|firmware\.bootloader\.efi\b|` +
		`devices\.(interfaces\[\d+\]|inputs\[\d+\]\.type|disks\[\d+\]\.blockSize)$)`)
	// mended are mistakes that a preference may mend: it makes a disk of what is nothing yet, chooses a binding, and attaches no interface.
	mended = regexp.MustCompile(`must be mapped to a disk, but disk is not set|only supported on masquerade|bridge interface is not enabled`)
	// defaultRules refuse what the user left to a default that only VMIs have in the reference: the bus of a disk.
	defaultRules = []string{"disks/block-size-sata", "disks/dedicated-iothread", "disks/metrics-bus", "disks/pci-bus"}
	diskPath     = regexp.MustCompile(`^.*\.disks\[\d+\]`)
)

// pluginResource is the path of the amount of a resource other than CPU and memory.
var pluginResource = regexp.MustCompile(`\.resources\.(requests|limits)\[`)

// volumeReference is the path of the name of a volume's DataVolume or claim.
var volumeReference = regexp.MustCompile(`\.volumes\[\d+\]\.(dataVolume\.name|persistentVolumeClaim\.claimName)$`)

// claimElement is the path of an element of resourceClaims.
var claimElement = regexp.MustCompile(`^.*\.resourceClaims\[\d+\]`)

// matcherName is the field with the name of an instancetype or a preference.
var matcherName = regexp.MustCompile(`^spec\.(instancetype|preference)\.name$`)

// holds reports whether a version of KubeVirt differs.
func (d deviation) holds(version config.Version) bool {
	version = version.Nearest()
	return version >= d.since && (d.until == 0 || version <= d.until)
}

// ofRule matches errors of a rule.
func ofRule(name string) func(*field.Error) bool {
	return func(err *field.Error) bool { return err.Origin == name }
}

// errorOfRule matches errors of certain rules.
func errorOfRule(names ...string) func(judged, *field.Error) bool {
	return func(_ judged, err *field.Error) bool { return slices.Contains(names, err.Origin) }
}

// errorWithText matches errors at a path with a text.
func errorWithText(path, text string) func(judged, *field.Error) bool {
	pattern := regexp.MustCompile(path)
	return func(_ judged, err *field.Error) bool {
		return pattern.MatchString(err.Field) && strings.Contains(err.Detail, text)
	}
}

// errorOfOrigin matches errors of these rules.
func errorOfOrigin(rules ...string) func(judged, *field.Error) bool {
	return func(_ judged, err *field.Error) bool { return slices.Contains(rules, err.Origin) }
}

// explainByDeviations names the first of the deviations that account for the causes that are missing and the errors that are added, and
// gives back what none of them accounts for.
func explainByDeviations(j judged, missing []cause, added field.ErrorList) (name string, left []cause, beyond field.ErrorList) {
	note := func(i int) bool {
		if i >= 0 && name == "" {
			name = deviations[i].name
		}
		return i >= 0
	}
	for _, c := range missing {
		if !note(slices.IndexFunc(deviations, func(d deviation) bool { return d.holds(j.version) && d.missing != nil && d.missing(j, c) })) {
			left = append(left, c)
		}
	}
	for _, err := range added {
		if !note(slices.IndexFunc(deviations, func(d deviation) bool { return d.holds(j.version) && d.added != nil && d.added(j, err) })) {
			beyond = append(beyond, err)
		}
	}
	return name, left, beyond
}

// architectureOfVMI returns the architecture of the VMI, which may come from its preference.
func (j judged) architectureOfVMI() any {
	if j.guest != nil && j.guest.Spec.Architecture != "" {
		return j.guest.Spec.Architecture
	}
	return j.valueAt(j.base + ".architecture")
}

// valueAt returns what the object has at a path, or nil.
func (j judged) valueAt(path string) any {
	var at any = j.object
	for _, segment := range pathSegments(path) {
		next, found := stepInto(at, segment)
		if !found {
			return nil
		}
		at = next
	}
	return at
}

// valuesAtSchemaPath returns the values at a path without indices, as schemas name them: of every element of each list.
func valuesAtSchemaPath(value any, path string) (found []any) {
	if list, is := value.([]any); is {
		for _, element := range list {
			found = append(found, valuesAtSchemaPath(element, path)...)
		}
		return found
	}
	if path == "" {
		return []any{value}
	}
	name, rest, _ := strings.Cut(path, ".")
	object, _ := value.(map[string]any)
	if below, exists := object[name]; exists {
		found = valuesAtSchemaPath(below, rest)
	}
	return found
}

// infersFromSnapshot reports whether a volume of the VM is made from a snapshot, or from a DataSource of one.
func (j judged) infersFromSnapshot() bool {
	ofSnapshot := func(o unstructured.Unstructured) bool {
		_, has, _ := unstructured.NestedMap(o.Object, "spec", "source", "snapshot")
		return has && o.GetKind() == "DataSource"
	}
	return len(valuesAtSchemaPath(j.object, "spec.dataVolumeTemplates.spec.source.snapshot")) > 0 || slices.ContainsFunc(j.Objects, ofSnapshot)
}

// isDiskOfDump reports whether a disk, at a path of the reference, is of a volume that takes a memory dump. The reference makes a disk for each volume without
// one, behind the disks that are written.
func (j judged) isDiskOfDump(path string) bool {
	written, _ := j.valueAt(j.base + ".domain.devices.disks").([]any)
	index := diskIndex.FindStringSubmatch(path)
	if len(index) == 0 {
		return false
	}
	at, err := strconv.Atoi(index[1])
	volumes, _ := j.valueAt(j.base + ".volumes").([]any)
	return err == nil && at >= len(written) && slices.ContainsFunc(volumes, func(volume any) bool {
		fields, _ := volume.(map[string]any)
		return fields["memoryDump"] != nil
	})
}

// diskIndex is the last index in the path of a disk.
var diskIndex = regexp.MustCompile(`disks\[(\d+)\][^\[]*$`)

// hasValue reports whether the object has a value other than null at a path.
func (j judged) hasValue(path string) bool { return j.valueAt(path) != nil }

// hasErrorAt reports whether Kiln has an error at a path.
func (j judged) hasErrorAt(path string) bool {
	return slices.ContainsFunc(j.errs, func(err *field.Error) bool { return err.Field == path })
}
