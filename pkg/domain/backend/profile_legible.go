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

// The API server refuses a profile that cannot be read, by the rules in the definition of HostProfile. What is judged here was stored before
// there was a rule, or comes from a file.

// Unreadable returns the mistakes in a profile's selectors, below the path of its spec. Such a profile selects no VMI, because it is
// unknown which it is for.
func Unreadable(spec *v1alpha1.HostProfileSpec, path *field.Path) field.ErrorList {
	strict := metavalidation.LabelSelectorValidationOptions{}
	return append(metavalidation.ValidateLabelSelector(spec.VMISelector, strict, path.Child("vmiSelector")),
		metavalidation.ValidateLabelSelector(spec.NodeSelector, strict, path.Child("nodeSelector"))...)
}

// Illegible returns the fields of a profile's policy that cannot be read, below the path of its spec. Such a field does not count, and the others
// of the profile do; but see kept.
func Illegible(spec *v1alpha1.HostProfileSpec, path *field.Path) (errs field.ErrorList) {
	walk(reflect.ValueOf(&spec.HostPolicy).Elem(), "", func(name string, value reflect.Value) {
		errs = append(errs, illegible(name, value, path)...)
	})
	return errs
}

// Mistakes returns all that cannot be read in a profile, below the path of its spec.
func Mistakes(spec *v1alpha1.HostProfileSpec, path *field.Path) field.ErrorList {
	return append(Unreadable(spec, path), Illegible(spec, path)...)
}

func illegible(name string, value reflect.Value, path *field.Path) (errs field.ErrorList) {
	for _, part := range strings.Split(name, ".") {
		path = path.Child(part)
	}
	if set, fixed := words[name]; fixed {
		if _, known := set[value.String()]; !known {
			return field.ErrorList{notAWord(path, name, value.String())}
		}
		return nil
	}
	switch quantity := value.Interface().(type) {
	case *resource.Quantity:
		if !between(*quantity, 1, most) {
			errs = append(errs, field.Invalid(path, quantity.String(), "must be from 1 to 9223372036854775807"))
		}
	case []resource.Quantity:
		for i, q := range quantity {
			if !between(q, least[name], most) {
				errs = append(errs, field.Invalid(path.Index(i), q.String(), "must be a size such as '2Mi'"))
			}
		}
	}
	if form, has := forms[name]; has && !form.fits(value.String()) {
		errs = append(errs, field.Invalid(path, value.String(), form.words))
	}
	return errs
}

// most is the greatest number that the API server takes.
const most = math.MaxInt64

// least are the smallest sizes in lists.
var least = map[string]int64{"memory.hugePageSizes": 1024}

func between(q resource.Quantity, low, high int64) bool {
	return q.CmpInt64(low) >= 0 && q.CmpInt64(high) <= 0
}

// form is that of a text.
type form struct {
	fits  func(string) bool
	words string
}

var (
	cpuList  = form{isCPUList, "must be a list of CPUs such as '0-3,8'"}
	ofGuest  = form{isTemplate(guestPath), "must be an absolute path without '..'; {{.Namespace}}, {{.Name}} and {{.UID}} may stand in it"}
	ofDevice = form{isTemplate(devicePath), "must be an absolute path without '..'; {{.Namespace}}, {{.Name}}, {{.UID}} and {{.Channel}} may stand in it"}
	folder   = form{isPath, "must be an absolute path without '..'"}
)

var forms = map[string]form{
	"cpu.emulatorCPUs": cpuList, "cpu.reservedHostCPUs": cpuList, "ioThreads.cpus": cpuList,
	"pathTemplates.vnc": ofGuest, "pathTemplates.serial": ofGuest, "pathTemplates.nvram": ofGuest, "pathTemplates.swtpm": ofGuest,
	"pathTemplates.channel": ofDevice, "serialLog.dir": folder, "security.resourcePartition": folder,
	"graphics.listen": {isListener, "must be 'Socket' or an IP address"},
}

// Each is also the pattern of the API server's rule.
var (
	listOfCPUs = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$`) // of four digits: a range is spelled out in memory
	guestPath  = regexp.MustCompile(`^(/([^{}/[:cntrl:]]|\{\{ ?\.(Namespace|Name|UID) ?\}\})+)+$`)
	devicePath = regexp.MustCompile(`^(/([^{}/[:cntrl:]]|\{\{ ?\.(Namespace|Name|UID|Channel) ?\}\})+)+$`)
	plainPath  = regexp.MustCompile(`^/[^[:cntrl:]]*$`)
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

// kept reports whether a field that cannot be read refuses the guests that its profile selects, where no profile of a higher priority decides. It
// does where a start without the field does harm: a guest would find no boot entries or an empty TPM, CPUs would be given away that are the host's,
// or a guest would be confined less than the administrator wanted.
func kept(name string) bool {
	return slices.Contains([]string{"pathTemplates.nvram", "pathTemplates.swtpm", "cpu.reservedHostCPUs"}, name) || strings.HasPrefix(name, "security.")
}

// legible is a copy of a profile's policy without the fields that do not count.
func legible(spec *v1alpha1.HostProfileSpec) *v1alpha1.HostPolicy {
	policy := spec.HostPolicy.DeepCopy()
	walk(reflect.ValueOf(policy).Elem(), "", func(name string, value reflect.Value) {
		if !kept(name) && len(illegible(name, value, nil)) > 0 {
			value.SetZero()
		}
	})
	return policy
}

// selects by labels; an absent selector selects all, and one that cannot be read none.
func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}
