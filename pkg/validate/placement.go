package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: hostname, subdomain, serviceAccountName, evictionStrategy, startStrategy, tolerations, readinessProbe, livenessProbe. Affinity
// and spreading are in placement_affinity.go, DNS in placement_dns.go.
// The names, start, tolerations and probes of the VMI's pod.
// The fields go into the pod. Kubernetes would refuse the pod, and KubeVirt accepts some of them: tolerations and the scheme of a
// probe are judged here only.

var nameRules = []guestRule{
	{names, []Rule{
		{Name: "placement/hostname"},
		{Name: "placement/subdomain"},
	}},
	{serviceAccount, []Rule{
		{Name: "placement/service-account"},
		{Name: "placement/service-account-volume"},
	}},
}

var placementRules = []guestRule{
	{strategies, []Rule{
		{Name: "placement/eviction-strategy"},
		{Name: "placement/start-strategy"},
		{Name: "placement/paused-liveness"},
	}},
	{tolerations, []Rule{
		{Name: "placement/toleration-operator"},
		{Name: "placement/toleration-effect"},
	}},
	{probes, []Rule{
		{Name: "placement/probe-scheme"},
		{Name: "placement/probe-network", MendedBy: byCompletion | byPreference},
		{Name: "placement/probe-handler"},
		{Name: "placement/probe-handlers"},
	}},
}

// names is validateHostNameNotConformingToDNSLabelRules and validateSubdomainDNSSubdomainRules.
func names(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Hostname != "" {
		errs = append(errs, named(path.Child("hostname"), spec.Hostname, validation.IsDNS1123Label).WithOrigin("placement/hostname")...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, named(path.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Subdomain).WithOrigin("placement/subdomain")...)
	}
	return errs
}

// serviceAccount must be that of the serviceAccount volume, if there is one, because a pod has one account.
// In KubeVirt it is validateServiceAccountName.
func serviceAccount(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	given, at := spec.ServiceAccountName, path.Child("serviceAccountName")
	if given == "" {
		return nil
	}
	errs = append(errs, named(at, given, validation.IsDNS1123Subdomain).WithOrigin("placement/service-account")...)
	for i, volume := range spec.Volumes {
		if account := volume.ServiceAccount; account != nil && account.ServiceAccountName != given {
			errs = append(errs, field.Invalid(at, given,
				fmt.Sprintf("must be the service account of volumes[%d], '%s'", i, account.ServiceAccountName)).WithOrigin("placement/service-account-volume"))
		}
	}
	return errs
}

// strategies is validateLiveMigration, for the VMI's own strategy, and validateStartStrategy. The cluster's eviction strategy is not
// judged here: its user could not correct it.
func strategies(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if eviction := spec.EvictionStrategy; eviction != nil {
		errs = append(errs, supported(path.Child("evictionStrategy"), *eviction,
			v1.EvictionStrategyExternal, v1.EvictionStrategyLiveMigrate, v1.EvictionStrategyLiveMigrateIfPossible, v1.EvictionStrategyNone).
			WithOrigin("placement/eviction-strategy")...)
	}
	if start := spec.StartStrategy; start != nil {
		errs = append(errs, supported(path.Child("startStrategy"), *start, v1.StartStrategyPaused).WithOrigin("placement/start-strategy")...)
		if *start == v1.StartStrategyPaused && spec.LivenessProbe != nil {
			errs = append(errs, field.Invalid(path.Child("startStrategy"), *start,
				"cannot be combined with livenessProbe, which would restart the paused guest").WithOrigin("placement/paused-liveness"))
		}
	}
	return errs
}

// tolerations are the pod's.
func tolerations(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i, t := range spec.Tolerations {
		at := path.Child("tolerations").Index(i)
		if t.Operator != "" {
			errs = append(errs, supported(at.Child("operator"), t.Operator, corev1.TolerationOpEqual,
				corev1.TolerationOpExists).WithOrigin("placement/toleration-operator")...)
		}
		if t.Effect != "" {
			errs = append(errs, supported(at.Child("effect"), t.Effect, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule,
				corev1.TaintEffectPreferNoSchedule).WithOrigin("placement/toleration-effect")...)
		}
	}
	return errs
}

func probes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	errs := probe(spec, spec.ReadinessProbe, path.Child("readinessProbe"))
	return append(errs, probe(spec, spec.LivenessProbe, path.Child("livenessProbe"))...)
}

// probe requires one handler. Handlers that use the network need the pod network.
// In KubeVirt it is validateProbe and appendStatusCauseForProbeNotAllowedWithNoPodNetworkPresent: the kubelet reaches a VMI at the address of its
// pod only.
func probe(spec *v1.VirtualMachineInstanceSpec, probe *v1.Probe, path *field.Path) (errs field.ErrorList) {
	if probe == nil {
		return nil
	}
	// Every network counts, not only the default one, as in KubeVirt.
	onPod := false
	for _, network := range spec.Networks {
		onPod = onPod || network.Pod != nil
	}
	if get := probe.HTTPGet; get != nil && get.Scheme != "" {
		errs = append(errs, supported(path.Child("httpGet", "scheme"), get.Scheme, corev1.URISchemeHTTP,
			corev1.URISchemeHTTPS).WithOrigin("placement/probe-scheme")...)
	}
	var set []string
	for _, way := range []struct {
		name       string
		set, byNet bool
	}{
		{"exec", probe.Exec != nil, false},
		{"guestAgentPing", probe.GuestAgentPing != nil, false},
		{"httpGet", probe.HTTPGet != nil, true},
		{"tcpSocket", probe.TCPSocket != nil, true},
	} {
		if !way.set {
			continue
		}
		set = append(set, way.name)
		if way.byNet && !onPod {
			errs = append(errs, field.Invalid(path.Child(way.name), "", "needs a network of type pod").WithOrigin("placement/probe-network"))
		}
	}
	switch {
	case len(set) == 0:
		errs = append(errs, field.Required(path, "give the probe a handler: exec, guestAgentPing, httpGet or tcpSocket").WithOrigin("placement/probe-handler"))
	case len(set) > 1:
		errs = append(errs, field.Forbidden(path.Child(set[1]), "cannot be combined with "+set[0]+": a probe has one handler").WithOrigin("placement/probe-handlers"))
	}
	return errs
}
