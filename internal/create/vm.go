package create

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of the VM: metadata.name and namespace, runStrategy, terminationGracePeriodSeconds, domain.memory, and both matchers.
// What no flag says is left to admission: disks, interfaces, the kind of a matcher. Two things are not, since virtctl writes them: the grace period
// of 180 seconds, and a memory of 512Mi where there is no instancetype.

// VM are the flags of 'create vm'. The names of the fields are those of virtctl's flags.
type VM struct {
	// Name must be given. Names of volumes derive from it.
	Name string
	// Namespace is empty for a manifest that goes wherever it is applied.
	Namespace string
	// RunStrategy is one of runStrategies, in any case.
	RunStrategy string
	// TerminationGracePeriod is in seconds.
	TerminationGracePeriod int64
	// Memory is the guest's; empty for virtctl's default of 512Mi, which counts where there is no instancetype.
	Memory                   string
	Instancetype, Preference Reference

	// Each volume is one text for parse.
	VolumeContainerdisk, VolumePVC, VolumeImport  []string
	VolumeDatasource, VolumeClonePVC, VolumeBlank []string
	VolumeSysprep                                 string
	// User, Password and SSHKeys are cloud-init's. The password is the content of a file, which is for the caller to read.
	User, Password string
	SSHKeys        []string
	AccessCred     []string
	// CloudInit is nocloud, configdrive or none, in any case. User data and network data are in base64.
	CloudInit, CloudInitUserData, CloudInitNetwork string
	// GAManageSSHGiven and CloudInitChanged report that the user gave these flags: access credentials set those that were not given.
	GAManageSSH, GAManageSSHGiven, CloudInitChanged bool
}

// Reference are the three flags that name an instancetype or a preference.
type Reference struct {
	// Name is 'NAME' or 'KIND/NAME'.
	Name string
	// Infer is nil if the flag was not given: then it is inferred if that is possible, and the VM starts without it if not.
	Infer *bool
	// From names the volume to infer from; empty for the first that boots.
	From string
}

func (r Reference) explicit() bool { return r.Infer != nil || r.From != "" }

// defaultMemory is virtctl's.
const defaultMemory = "512Mi"

// runStrategies are those that an owner may write; WaitAsReceiver is of migrations.
var runStrategies = []v1.VirtualMachineRunStrategy{
	v1.RunStrategyAlways, v1.RunStrategyManual, v1.RunStrategyHalted, v1.RunStrategyOnce, v1.RunStrategyRerunOnFailure,
}

// building is a VM that is being written.
type building struct {
	VM
	vm *v1.VirtualMachine
	// order are the names of volumes by their place in the order of boot.
	order    map[uint]string
	warnings []string
}

// Build returns the manifest, and warnings about the flags. Volumes come in virtctl's order, which is that of boot unless an order is given:
// containerdisks, claims, blank volumes, clones of claims, data sources, imports. The deprecated flags are put before the imports one by one.
func (f VM) Build() (*v1.VirtualMachine, []string, error) {
	b := &building{VM: f, order: map[uint]string{}}
	for _, step := range []func() error{
		b.base, b.runStrategy, b.instancetype, b.preference, b.containerdisks, b.claims, b.imports, b.sysprep, b.credentials, b.cloudInit, b.infer,
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	return b.vm, b.warnings, nil
}

func (b *building) spec() *v1.VirtualMachineInstanceSpec { return &b.vm.Spec.Template.Spec }

// leastMemory is 1M, the least that rule memory/unit of admission accepts.
const leastMemory = 1e6

// mostMemory is the most that rule memory/guest accepts.
var mostMemory = resource.MustParse("4Pi")

// base starts the VM with the fields that do not depend on volumes. It fails for a memory that is no quantity of Kubernetes,
// such as '512MB', or less than admission accepts, such as '512'.
func (b *building) base() error {
	text := b.Memory
	if text == "" {
		text = defaultMemory
	}
	memory, err := resource.ParseQuantity(text)
	if err != nil {
		return wrong("memory", "'%s': %s", text, validate.NoQuantity(text))
	}
	if memory.CmpInt64(leastMemory) < 0 {
		return wrong("memory", "'%s' is less than 1M: is the unit missing? 2Gi has one", text)
	}
	if memory.Cmp(mostMemory) > 0 {
		return wrong("memory", "'%s' is more than 4Pi, which is what processors address", text)
	}
	if b.TerminationGracePeriod < 0 {
		return wrong("termination-grace-period", "'%d' must not be negative", b.TerminationGracePeriod)
	}
	if err := named(b.Name); err != nil {
		return err
	}
	if errs := validate.DomainName(b.Namespace, b.Name); len(errs) > 0 {
		return wrong("name", "%s", errs[0].ErrorBody())
	}
	b.vm = &v1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.VirtualMachineGroupVersionKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: b.Name, Namespace: b.Namespace},
		Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: v1.VirtualMachineInstanceSpec{
			TerminationGracePeriodSeconds: &b.TerminationGracePeriod,
			Domain:                        v1.DomainSpec{Memory: &v1.Memory{Guest: &memory}},
		}}},
	}
	return nil
}

// runStrategy writes the API's spelling: the API is strict, and people are not.
func (b *building) runStrategy() error {
	var names []string
	for _, strategy := range runStrategies {
		if strings.EqualFold(string(strategy), b.RunStrategy) {
			b.vm.Spec.RunStrategy = &strategy
			return nil
		}
		names = append(names, string(strategy))
	}
	return wrong("run-strategy", "'%s' must be '%s'", b.RunStrategy, strings.Join(names, "', '"))
}

// instancetype is virtctl's withInstancetype. An instancetype owns the memory, so that the default would be a conflict.
func (b *building) instancetype() error {
	if b.Instancetype.Name == "" {
		return nil
	}
	kind, name, err := matcher("instancetype", b.Instancetype.Name, instancetype.Kinds)
	b.vm.Spec.Instancetype = &v1.InstancetypeMatcher{Kind: kind, Name: name}
	b.spec().Domain.Memory = nil
	return err
}

func (b *building) preference() error {
	if b.Preference.Name == "" {
		return nil
	}
	kind, name, err := matcher("preference", b.Preference.Name, instancetype.PreferenceKinds)
	b.vm.Spec.Preference = &v1.PreferenceMatcher{Kind: kind, Name: name}
	return err
}

// matcher reads 'NAME' or 'KIND/NAME'. The kind is written as virtctl does, in small letters; without one it is left to admission.
func matcher(flag, text string, kinds instancetype.KindNames) (kind, name string, err error) {
	kind, name, err = split(text)
	if err != nil {
		return "", "", wrong(flag, "%w", err)
	}
	kind = strings.ToLower(kind)
	allowed := []string{strings.ToLower(kinds.Namespaced), strings.ToLower(kinds.Cluster)}
	if kind != "" && !slices.Contains(allowed, kind) {
		return "", "", wrong(flag, "kind '%s' must be '%s'", kind, strings.Join(allowed, "' or '"))
	}
	return kind, name, nil
}
