package backend

import (
	"math"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
)

// The API server refuses invalid profiles by the schema and the CEL rules in the definition of HostProfile, with or without Kiln's webhook. The
// profiles that are validated here were stored before there was a rule, or come from a file of the command line.

// InvalidSelectors returns the errors in a profile's selectors, below the path of its spec. Such a profile selects no VMI, because it is
// unknown which VMIs it is for.
func InvalidSelectors(spec *v1alpha1.HostProfileSpec, path *field.Path) field.ErrorList {
	strict := metavalidation.LabelSelectorValidationOptions{}
	return append(metavalidation.ValidateLabelSelector(spec.VMISelector, strict, path.Child("vmiSelector")),
		metavalidation.ValidateLabelSelector(spec.NodeSelector, strict, path.Child("nodeSelector"))...)
}

// InvalidFields returns the errors in the fields of a profile's policy, below the path of its spec. An invalid field is ignored, and the other
// fields of the profile count. refusesVMI names the exceptions.
func InvalidFields(spec *v1alpha1.HostProfileSpec, path *field.Path) (errs field.ErrorList) {
	visitFields(reflect.ValueOf(&spec.HostPolicy).Elem(), "", func(name string, value reflect.Value) {
		errs = append(errs, fieldErrors(name, value, path)...)
	})
	return errs
}

// ValidateProfile returns the errors of InvalidSelectors and of InvalidFields.
func ValidateProfile(spec *v1alpha1.HostProfileSpec, path *field.Path) field.ErrorList {
	return append(InvalidSelectors(spec, path), InvalidFields(spec, path)...)
}

func fieldErrors(name string, value reflect.Value, path *field.Path) (errs field.ErrorList) {
	for _, part := range strings.Split(name, ".") {
		path = path.Child(part)
	}
	if set, fixed := libvirtValues[name]; fixed {
		if _, known := set[value.String()]; !known {
			return field.ErrorList{unsupportedValue(path, name, value.String())}
		}
		return nil
	}
	switch quantity := value.Interface().(type) {
	case *resource.Quantity:
		if !isBetween(*quantity, 1, maxQuantity) {
			errs = append(errs, field.Invalid(path, quantity.String(), "must be from 1 to 9223372036854775807"))
		}
	case []resource.Quantity:
		for i, q := range quantity {
			if !isBetween(q, minQuantity[name], maxQuantity) {
				errs = append(errs, field.Invalid(path.Index(i), q.String(), "must be a size such as '2Mi'"))
			}
		}
	}
	if format, has := formats[name]; has && !format.valid(value.String()) {
		errs = append(errs, field.Invalid(path, value.String(), format.message))
	}
	return errs
}

// maxQuantity is the limit in the definition's CEL rules, which compare quantities as integers of 64 bits.
const maxQuantity = math.MaxInt64

// minQuantity is the lower limit of the quantities in lists, in bytes, by the field. libvirt counts page sizes in KiB.
var minQuantity = map[string]int64{"memory.hugePageSizes": 1024}

func isBetween(q resource.Quantity, low, high int64) bool {
	return q.CmpInt64(low) >= 0 && q.CmpInt64(high) <= 0
}

// format is the required form of a string, with the message of its error.
type format struct {
	valid   func(string) bool
	message string
}

var (
	cpuList     = format{isCPUList, "must be a list of CPUs such as '0-3,8'"}
	vmiPath     = format{isTemplate(vmiTemplate), "must be an absolute path without '..'; {{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"}
	channelPath = format{isTemplate(channelTemplate),
		"must be an absolute path without '..'; {{.Namespace}}, {{.Name}}, {{.UID}} and {{.Channel}} may stand in it"}
	directory = format{isPath, "must be an absolute path without '..'"}
)

// formats has the format of each string without an enum, by the field's path.
var formats = map[string]format{
	"cpu.emulatorCPUs": cpuList, "cpu.reservedHostCPUs": cpuList, "ioThreads.cpus": cpuList,
	"pathTemplates.vnc": vmiPath, "pathTemplates.serial": vmiPath, "pathTemplates.nvram": vmiPath, "pathTemplates.swtpm": vmiPath,
	"pathTemplates.channel": channelPath, "serialLog.dir": directory, "security.resourcePartition": directory,
	"graphics.listen": {isListener, "must be 'Socket' or an IP address"},
}

// The definition of HostProfile has the same patterns; a test compares the two. CPU numbers have at most four digits, because a range is spelled
// out in memory.
var (
	listOfCPUs      = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$`)
	vmiTemplate     = regexp.MustCompile(`^(/([^{}/[:cntrl:]]|\{\{ ?\.(Namespace|Name|UID) ?\}\})+)+$`)
	channelTemplate = regexp.MustCompile(`^(/([^{}/[:cntrl:]]|\{\{ ?\.(Namespace|Name|UID|Channel) ?\}\})+)+$`)
	plainPath       = regexp.MustCompile(`^/[^[:cntrl:]]*$`)
)

func isCPUList(text string) bool {
	_, err := cpuset.Parse(text)
	return listOfCPUs.MatchString(text) && err == nil
}

func isTemplate(pattern *regexp.Regexp) func(string) bool {
	return func(text string) bool { return pattern.MatchString(text) && path.Clean(text) == text }
}

func isPath(text string) bool {
	return plainPath.MatchString(text) && !slices.Contains(strings.Split(text, "/"), "..")
}

func isListener(text string) bool {
	address, err := netip.ParseAddr(text)
	return text == "Socket" || err == nil && address.Zone() == ""
}

// refusesVMI reports whether an invalid value of a field refuses the VMIs that its profile selects, unless a profile of a higher priority sets the
// field. It does if a start without the field would do harm: the guest would find no boot entries (nvram) or an empty TPM (swtpm), would get
// CPUs of the host, or would be confined less than the administrator wanted.
func refusesVMI(name string) bool {
	return slices.Contains([]string{"pathTemplates.nvram", "pathTemplates.swtpm", "cpu.reservedHostCPUs"}, name) || strings.HasPrefix(name, "security.")
}

// withoutInvalidFields returns a copy of a profile's policy without the fields that are ignored.
func withoutInvalidFields(spec *v1alpha1.HostProfileSpec) *v1alpha1.HostPolicy {
	policy := spec.HostPolicy.DeepCopy()
	visitFields(reflect.ValueOf(policy).Elem(), "", func(name string, value reflect.Value) {
		if !refusesVMI(name) && len(fieldErrors(name, value, nil)) > 0 {
			value.SetZero()
		}
	})
	return policy
}

// selectorMatches reports whether a selector matches labels. As in the Kubernetes API, an absent selector matches everything. An invalid one matches
// nothing.
func selectorMatches(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}
