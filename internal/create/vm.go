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

// This file sets metadata.name and namespace, runStrategy, terminationGracePeriodSeconds, domain.memory, and both matchers.
// Fields without a flag are left to admission: disks, interfaces, the kind of a matcher. Two fields are set without a flag, because virtctl sets them: a
// grace period of 180 seconds, and a memory of 512Mi if there is no instancetype.

// VM contains the flags of 'create vm'. Each field has the name of virtctl's flag.
type VM struct {
	// Name is required. The default names of volumes begin with it.
	Name string
	// Namespace may be empty: then the manifest has none.
	Namespace string
	// RunStrategy is one of runStrategies, in upper or lower case.
	RunStrategy string
	// TerminationGracePeriod is in seconds.
	TerminationGracePeriod int64
	// Memory is the memory of the guest. If it is empty and there is no instancetype, the guest has virtctl's default of 512Mi.
	Memory                   string
	Instancetype, Preference Reference

	// Each volume is one value of a flag, in the format of parseParameters.
	VolumeContainerdisk, VolumePVC, VolumeImport  []string
	VolumeDatasource, VolumeClonePVC, VolumeBlank []string
	VolumeSysprep                                 string
	// User, Password and SSHKeys are settings of cloud-init. Password is the password itself: the caller has read its file.
	User, Password string
	SSHKeys        []string
	AccessCred     []string
	// CloudInit is nocloud, configdrive or none, in upper or lower case. CloudInitUserData and CloudInitNetwork are in base64.
	CloudInit, CloudInitUserData, CloudInitNetwork string
	// GAManageSSHGiven and CloudInitChanged report that the user gave these flags. Access credentials change only flags that were not given.
	GAManageSSH, GAManageSSHGiven, CloudInitChanged bool
}

// Reference contains the three flags that choose an instancetype or a preference.
type Reference struct {
	// Name is 'NAME' or 'KIND/NAME'.
	Name string
	// Infer is nil if the flag was not given. Then the object is inferred if possible, and otherwise the VM starts without it.
	Infer *bool
	// From is the name of the volume to infer from; empty for the volume that boots first.
	From string
}

func (r Reference) inferenceRequested() bool { return r.Infer != nil || r.From != "" }

// defaultMemory is virtctl's default.
const defaultMemory = "512Mi"

// runStrategies are the run strategies that a user may set. WaitAsReceiver is only for migrations.
var runStrategies = []v1.VirtualMachineRunStrategy{
	v1.RunStrategyAlways, v1.RunStrategyManual, v1.RunStrategyHalted, v1.RunStrategyOnce, v1.RunStrategyRerunOnFailure,
}

// vmBuilder is a VM that is being written.
type vmBuilder struct {
	VM
	vm *v1.VirtualMachine
	// order has the names of volumes by their bootOrder.
	order    map[uint]string
	warnings []string
}

// Build returns the manifest, and warnings about the flags. The volumes are in virtctl's order, in which the guest also tries to boot from them unless
// bootorder is given: containerdisks, claims, blank volumes, clones of claims, data sources, imports.
func (f VM) Build() (*v1.VirtualMachine, []string, error) {
	b := &vmBuilder{VM: f, order: map[uint]string{}}
	for _, step := range []func() error{
		b.createBase, b.setRunStrategy, b.setInstancetype, b.setPreference, b.addContainerdisks, b.addClaims, b.addImports, b.addSysprep,
		b.addCredentials, b.addCloudInit, b.inferMatchers,
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	return b.vm, b.warnings, nil
}

func (b *vmBuilder) vmiSpec() *v1.VirtualMachineInstanceSpec { return &b.vm.Spec.Template.Spec }

// leastMemory is 1M, the least that rule memory/unit of admission accepts.
const leastMemory = 1e6

// mostMemory is the most that rule memory/guest accepts.
var mostMemory = resource.MustParse("4Pi")

// createBase creates the VM with the fields that do not depend on volumes. It fails if the memory is not a quantity of Kubernetes,
// such as '512MB', or is less than admission accepts, such as '512'.
func (b *vmBuilder) createBase() error {
	text := b.Memory
	if text == "" {
		text = defaultMemory
	}
	memory, err := resource.ParseQuantity(text)
	if err != nil {
		return flagError("memory", "'%s': %s", text, validate.NoQuantity(text))
	}
	if memory.CmpInt64(leastMemory) < 0 {
		return flagError("memory", "'%s' is less than 1M: is the unit missing? 2Gi has one", text)
	}
	if memory.Cmp(mostMemory) > 0 {
		return flagError("memory", "'%s' is more than 4Pi, which is what processors address", text)
	}
	if b.TerminationGracePeriod < 0 {
		return flagError("termination-grace-period", "'%d' must not be negative", b.TerminationGracePeriod)
	}
	if err := checkName(b.Name); err != nil {
		return err
	}
	if errs := validate.DomainName(b.Namespace, b.Name); len(errs) > 0 {
		return flagError("name", "%s", errs[0].ErrorBody())
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

// setRunStrategy sets the run strategy in the API's spelling, because the API distinguishes upper and lower case.
func (b *vmBuilder) setRunStrategy() error {
	var names []string
	for _, strategy := range runStrategies {
		if strings.EqualFold(string(strategy), b.RunStrategy) {
			b.vm.Spec.RunStrategy = &strategy
			return nil
		}
		names = append(names, string(strategy))
	}
	return flagError("run-strategy", "'%s' must be '%s'", b.RunStrategy, strings.Join(names, "', '"))
}

// setInstancetype is virtctl's withInstancetype. It removes the default memory, which would conflict with the memory of the instancetype.
func (b *vmBuilder) setInstancetype() error {
	if b.Instancetype.Name == "" {
		return nil
	}
	kind, name, err := parseMatcher("instancetype", b.Instancetype.Name, instancetype.Kinds)
	b.vm.Spec.Instancetype = &v1.InstancetypeMatcher{Kind: kind, Name: name}
	b.vmiSpec().Domain.Memory = nil
	return err
}

func (b *vmBuilder) setPreference() error {
	if b.Preference.Name == "" {
		return nil
	}
	kind, name, err := parseMatcher("preference", b.Preference.Name, instancetype.PreferenceKinds)
	b.vm.Spec.Preference = &v1.PreferenceMatcher{Kind: kind, Name: name}
	return err
}

// parseMatcher parses 'NAME' or 'KIND/NAME'. It returns the kind in lower case, as virtctl writes it. Without a kind, admission sets it.
func parseMatcher(flag, text string, kinds instancetype.KindNames) (kind, name string, err error) {
	kind, name, err = splitPrefix(text)
	if err != nil {
		return "", "", flagError(flag, "%w", err)
	}
	kind = strings.ToLower(kind)
	allowed := []string{strings.ToLower(kinds.Namespaced), strings.ToLower(kinds.Cluster)}
	if kind != "" && !slices.Contains(allowed, kind) {
		return "", "", flagError(flag, "kind '%s' must be '%s'", kind, strings.Join(allowed, "' or '"))
	}
	return kind, name, nil
}
