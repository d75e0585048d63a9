package workbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/clusterconfig"
	"github.com/kilnvm/kiln/internal/kubevirt/installed"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Settings are the objects of administrators: the configuration of the cluster with its FrontendProfiles, and HostProfiles. Users who may read a VM often
// may not read these. Then the answer does not include them, and has a warning unless the bench is quiet.

// forbiddenWarning returns the warning about a setting that the user may not read; nil if the bench is quiet.
func (b *Bench) forbiddenWarning(format string, err error) []string {
	if b.Quiet {
		return nil
	}
	return []string{fmt.Sprintf(format, err)}
}

// FixSettings reads the configuration, the FrontendProfiles, the GuestPolicies and the HostProfiles of inputs, and uses them for all later answers, also for
// inputs of files: thousands of VMs of one dump are then reviewed one by one without reading and compiling the settings for each. It must be called before
// anything else is asked. Then reviews are safe for concurrent use if the reader of their inputs is. The warnings name settings that the user may not
// read, and what is unusual about the configuration.
func (b *Bench) FixSettings(ctx context.Context, in manifest.Inputs) ([]string, error) {
	_, warnings, err := b.Configuration(ctx, in)
	if err != nil {
		return warnings, err
	}
	read, _, err := b.kubeVirtConfiguration(ctx, in)
	if err != nil {
		return warnings, err
	}
	runs, _, err := b.kubeVirtGuests(ctx, in)
	if err != nil {
		return warnings, err
	}
	frontends, _, err := b.frontendProfiles(ctx, in)
	if err != nil {
		return warnings, err
	}
	policies, more, err := b.GuestPolicies(ctx, in)
	if warnings = append(warnings, more...); err != nil {
		return warnings, err
	}
	profiles, more, err := b.hostProfiles(ctx, in)
	b.configuration, b.kubevirt, b.frontends, b.policies, b.profiles = &read, &runs, &frontends, &policies, &profiles
	return append(warnings, more...), err
}

// Memoize keeps decoded objects between reviews by UID and resourceVersion, which must identify their content in all inputs.
func (b *Bench) Memoize() { b.memo = resolve.NewMemo() }

// Afresh returns a bench with the flags of b that has read no settings yet.
func (b *Bench) Afresh() *Bench {
	return &Bench{
		Config: b.Config, Profiles: b.Profiles, Policies: b.Policies, Carriers: b.Carriers, User: b.User, Runtime: b.Runtime,
		KubeVirtVersion: b.KubeVirtVersion, Strict: b.Strict, Quiet: b.Quiet, Now: b.Now, Stdin: b.Stdin,
	}
}

// Configuration returns the configuration of the file Config; without this file, the configuration of the KubeVirt object among the inputs or in the cluster;
// without this object, KubeVirt's defaults. It includes the FrontendProfile in force, among the inputs or in the cluster. If the configuration is the same
// for all objects, only the first call returns the warnings.
func (b *Bench) Configuration(ctx context.Context, in manifest.Inputs) (clusterconfig.Reading, []string, error) {
	read, warnings, err := b.kubeVirtConfiguration(ctx, in)
	if err != nil {
		return read, warnings, err
	}
	runs, more, err := b.kubeVirtGuests(ctx, in)
	if err != nil {
		return read, warnings, err
	}
	if _, runtime, _ := runtimeOf(b.Runtime); runtime != "" && b.KubeVirtVersion != 0 {
		return read, warnings, fmt.Errorf("--kubevirt-version has an effect only if KubeVirt runs the guests, and --runtime is '%s'", b.Runtime)
	}
	if nearest := b.KubeVirtVersion.Nearest(); b.KubeVirtVersion != 0 && b.KubeVirtVersion != nearest {
		more = append(more, fmt.Sprintf("--kubevirt-version is %s, and Kiln knows %s to %s: the rules of %s apply", b.KubeVirtVersion, config.Oldest, config.Newest,
			nearest))
	}
	if runs && !in.OfCluster && b.KubeVirtVersion == 0 { // the webhook logs the warning about the KubeVirt object of the cluster
		more = append(more, read.VersionWarnings()...)
	}
	if runs {
		assumed := read.Limits.Assumed
		read.Cluster = read.BesideKubeVirt(b.KubeVirtVersion)
		read.Limits.Assumed = assumed
	}
	read.Limits.KubeVirtGuests = runs
	if _, read.Limits.Runtime, err = runtimeOf(b.Runtime); err != nil {
		return read, warnings, err
	}
	if read.Source == "" && !in.OfCluster {
		read.Limits.Assumed = true
	}
	if len(warnings) == 0 || b.Config != "" { // the warning about the KubeVirt object has the same reason
		warnings = append(warnings, more...)
	}
	if in.Reader == nil {
		return read, warnings, nil
	}
	profiles, more, err := b.frontendProfiles(ctx, in)
	read.Cluster = read.WithFrontendProfiles(profiles)
	if pinned := read.Defaults.Frontend; pinned != nil {
		read.Source = cmp.Or(read.Source, v1alpha1.KindFrontendProfile+" "+pinned.Version)
	}
	return read, append(warnings, more...), err
}

// WithRuntime returns a configuration with the runtime of --runtime. RuntimeAuto leaves it open what runs the guests.
func (b *Bench) WithRuntime(cluster config.Cluster) (config.Cluster, error) {
	guests, runtime, err := runtimeOf(b.Runtime)
	cluster.Limits.KubeVirtGuests, cluster.Limits.Runtime = guests == installed.KubeVirt, runtime
	return cluster, err
}

// kubeVirtGuests reports whether KubeVirt runs guests: according to Runtime and KubeVirtVersion, otherwise whether the inputs or the cluster have KubeVirt's
// virt-controller. Among files, a KubeVirt object with the status of virt-operator is enough. If the user may not read it, the result is false, with a warning.
func (b *Bench) kubeVirtGuests(ctx context.Context, in manifest.Inputs) (bool, []string, error) {
	if known := b.kubevirt; known != nil {
		return *known, nil, nil
	}
	guests, _, err := runtimeOf(b.Runtime)
	if guests == installed.Auto && b.KubeVirtVersion != 0 {
		return true, nil, nil
	}
	if err != nil || guests == installed.Auto && in.Reader == nil {
		return false, nil, err
	}
	runs, err := installed.RunsGuests(ctx, guests, in.Reader)
	if err == nil && !runs && guests == installed.Auto && !in.OfCluster {
		runs, err = operatedKubeVirt(ctx, in.Reader)
	}
	var warnings []string
	if apierrors.IsForbidden(err) {
		warnings = b.forbiddenWarning("whether KubeVirt runs guests cannot be read, so Kiln is assumed to run them; otherwise use --runtime kubevirt: %v", err)
		err = nil
	}
	if err == nil && in.OfCluster { // two files may have different answers
		b.kubevirt = &runs
	}
	return runs, warnings, err
}

// operatedKubeVirt reports whether files contain a KubeVirt object whose status virt-operator has written. Kiln also reads its configuration from KubeVirt
// objects, which have no such status.
func operatedKubeVirt(ctx context.Context, files client.Reader) (bool, error) {
	var list v1.KubeVirtList
	err := files.List(ctx, &list)
	return slices.ContainsFunc(list.Items, func(of v1.KubeVirt) bool { return of.Status.ObservedKubeVirtVersion != "" }), err
}

// kubeVirtConfiguration returns the configuration without a FrontendProfile.
func (b *Bench) kubeVirtConfiguration(ctx context.Context, in manifest.Inputs) (clusterconfig.Reading, []string, error) {
	if known := b.configuration; known != nil {
		return *known, nil, nil
	}
	read, warnings, err := b.readConfiguration(ctx, in.Reader)
	if err == nil && (b.Config != "" || in.OfCluster) { // two files may have different configurations
		b.configuration = &read
	}
	return read, warnings, err
}

// readConfiguration reads the configuration. If the user may not read the KubeVirt object, KubeVirt's defaults take its place, with a warning.
func (b *Bench) readConfiguration(ctx context.Context, reader client.Reader) (clusterconfig.Reading, []string, error) {
	read, err := clusterconfig.Read(ctx, b.Config, reader)
	if b.Config == "" && apierrors.IsForbidden(err) {
		warnings := b.forbiddenWarning("the cluster's configuration cannot be read, so KubeVirt's defaults are used; name another with --config FILE: %v", err)
		read = clusterconfig.Reading{Cluster: config.Default()}
		read.Limits.Assumed = true
		return read, warnings, nil
	}
	var warnings []string
	if b.Config != "" { // the webhook logs the warnings about the KubeVirt object of the cluster
		for _, warning := range read.Warnings {
			warnings = append(warnings, b.Config+": "+warning)
		}
	}
	return read, warnings, err
}

// frontendProfiles returns the FrontendProfiles among the inputs or in the cluster. If the user may not list them, it returns no profiles and a
// warning.
func (b *Bench) frontendProfiles(ctx context.Context, in manifest.Inputs) ([]v1alpha1.FrontendProfile, []string, error) {
	if known := b.frontends; known != nil {
		return *known, nil, nil
	}
	profiles, err := clusterconfig.FrontendProfiles(ctx, in.Reader)
	var warnings []string
	if apierrors.IsForbidden(err) {
		warnings, err = b.forbiddenWarning("the cluster's FrontendProfiles cannot be read, so new VMs are shown without them: %v", err), nil
	}
	if err == nil && in.OfCluster {
		b.frontends = &profiles
	}
	return profiles, warnings, err
}

// hostProfiles returns the HostProfiles of the files Profiles; without these files, the HostProfiles among the inputs or in the cluster.
// A cluster without the CRD has no profiles. If the user may not list the profiles, it returns no profiles and a warning.
func (b *Bench) hostProfiles(ctx context.Context, in manifest.Inputs) ([]v1alpha1.HostProfile, []string, error) {
	if known := b.profiles; known != nil {
		return *known, nil, nil
	}
	var list v1alpha1.HostProfileList
	var warnings []string
	var err error
	if len(b.Profiles) > 0 {
		list.Items, err = b.readProfiles()
	} else {
		err = in.Reader.List(ctx, &list)
	}
	switch {
	case apierrors.IsForbidden(err):
		warnings = b.forbiddenWarning("the cluster's HostProfiles cannot be read, so none is applied; name some with --profile FILE: %v", err)
	case meta.IsNoMatchError(err): // the cluster has no HostProfiles
	case err != nil:
		return nil, nil, err
	}
	// Profiles among the inputs are not remembered: other inputs may have other profiles.
	if len(b.Profiles) > 0 || in.OfCluster {
		b.profiles = &list.Items
	}
	return list.Items, warnings, nil
}

// readProfiles reads the files Profiles, and checks them against the schema of the kind, as an API server does.
// An error begins with the flag --profile, and names the HostProfile if one was read.
func (b *Bench) readProfiles() ([]v1alpha1.HostProfile, error) {
	objects, err := manifest.Files{Stdin: b.Stdin}.ReadNames(b.Profiles)
	if err != nil {
		return nil, err
	}
	profiles := make([]v1alpha1.HostProfile, len(objects))
	for i, object := range objects {
		if object.Fault != nil {
			return nil, fmt.Errorf("--profile: %w", object.Fault)
		}
		if kind := object.GroupVersionKind(); kind != v1alpha1.GroupVersion.WithKind("HostProfile") {
			return nil, fmt.Errorf("--profile: %s has a %s, must have HostProfiles of %s", object.File(), kind.Kind, v1alpha1.GroupVersion)
		}
		checked, err := crdschema.Check(object.Unstructured)
		if err == nil && len(checked.Mistakes) > 0 {
			err = checked.Mistakes.ToAggregate()
		}
		err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &profiles[i]))
		if err != nil {
			return nil, fmt.Errorf("--profile: HostProfile %s: %w", object.GetName(), err)
		}
		if mistakes := backend.ValidateProfile(&profiles[i].Spec, field.NewPath("spec")); len(mistakes) > 0 {
			return nil, fmt.Errorf("--profile: HostProfile %s: %w", object.GetName(), mistakes.ToAggregate())
		}
	}
	return profiles, nil
}

// profilesByNode returns the sorted names of the profiles that select the VMI and have a nodeSelector, which matches nothing without a description of a host.
func profilesByNode(profiles []v1alpha1.HostProfile, guest labels.Set) (names []string) {
	for _, p := range profiles {
		if p.Spec.NodeSelector != nil && selectorMatches(p.Spec.VMISelector, guest) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// selectorMatches reports whether a vmiSelector matches the labels of a VMI. A nil selector matches all VMIs, an invalid one matches no VMI.
func selectorMatches(selector *metav1.LabelSelector, guest labels.Set) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(guest)
}
