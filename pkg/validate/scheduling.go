package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: hostname, subdomain, serviceAccountName, priorityClassName, evictionStrategy, startStrategy, terminationGracePeriodSeconds, nodeSelector,
// tolerations, readinessProbe, livenessProbe. Affinity and spreading are in scheduling_affinity.go, DNS in scheduling_dns.go.
// The names, start, node, tolerations and probes of the VMI's pod.
// The fields go into the pod, which Kubernetes would refuse (pkg/apis/core/validation/validation.go of k8s.io/kubernetes v1.36, which cannot be
// imported). KubeVirt judges host name, account, strategies and handlers of probes alone; the subdomain it takes for a domain.

var nameRules = []guestRule{
	{names, []Rule{
		{Name: "placement/hostname"},
		{Name: "placement/subdomain", KubeVirt: KubeVirtRefusesSome},
		{Name: "placement/priority-class", KubeVirt: KubeVirtAdmits},
	}},
	{serviceAccount, []Rule{
		{Name: "placement/service-account"},
		{Name: "placement/service-account-volume"},
	}},
}

var schedulingRules = []guestRule{
	{strategies, []Rule{
		{Name: "placement/eviction-strategy"},
		{Name: "placement/start-strategy"},
		{Name: "placement/paused-liveness"},
	}},
	{termination, []Rule{
		{Name: "placement/grace-period", KubeVirt: KubeVirtAdmits},
	}},
	{nodeSelector, []Rule{
		{Name: "placement/node-selector", KubeVirt: KubeVirtAdmits},
	}},
	{tolerations, []Rule{
		{Name: "placement/toleration-operator"},
		{Name: "placement/toleration-effect"},
		{Name: "placement/toleration-key", KubeVirt: KubeVirtAdmits},
		{Name: "placement/toleration-all", KubeVirt: KubeVirtAdmits},
		{Name: "placement/toleration-value", KubeVirt: KubeVirtAdmits},
		{Name: "placement/toleration-no-value", KubeVirt: KubeVirtAdmits},
		{Name: "placement/toleration-seconds", KubeVirt: KubeVirtAdmits},
	}},
	{probes, []Rule{
		{Name: "placement/probe-scheme"},
		{Name: "placement/probe-network", MendedBy: byCompletion | byPreference},
		{Name: "placement/probe-handler"},
		{Name: "placement/probe-handlers"},
		{Name: "placement/probe-command", KubeVirt: KubeVirtAdmits},
		{Name: "placement/probe-port", KubeVirt: KubeVirtAdmits},
		{Name: "placement/probe-header", KubeVirt: KubeVirtAdmits},
		{Name: "placement/probe-number", KubeVirt: KubeVirtAdmits},
		{Name: "placement/liveness-success", KubeVirt: KubeVirtAdmits},
	}},
}

// names is validateHostNameNotConformingToDNSLabelRules and validateSubdomainDNSSubdomainRules. The subdomain of a pod is one label.
func names(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Hostname != "" {
		errs = append(errs, named(path.Child("hostname"), spec.Hostname, validation.IsDNS1123Label).WithOrigin("placement/hostname")...)
	}
	if spec.Subdomain != "" {
		errs = append(errs, named(path.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label).WithOrigin("placement/subdomain")...)
	}
	if class := spec.PriorityClassName; class != "" {
		errs = append(errs, named(path.Child("priorityClassName"), class, validation.IsDNS1123Subdomain).WithOrigin("placement/priority-class")...)
	}
	return errs
}

// serviceAccount must be the account of the serviceAccount volume, if the VMI has such a volume, because a pod has one account.
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

// termination judges the time that a guest has to power off. KubeVirt accepts less than nothing.
func termination(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	return gracePeriod(spec.TerminationGracePeriodSeconds, path.Child("terminationGracePeriodSeconds")).WithOrigin("placement/grace-period")
}

func gracePeriod(seconds *int64, at *field.Path) field.ErrorList {
	if seconds == nil || *seconds >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *seconds, "must not be negative; 0 ends the guest at once")}
}

// nodeSelector selects nodes by their labels.
func nodeSelector(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	return labels(spec.NodeSelector, path.Child("nodeSelector")).WithOrigin("placement/node-selector")
}

// labels judges keys and values by the rules of labels, in the order of the keys. Each error is at its key.
func labels(given map[string]string, at *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		errs = append(errs, named(at.Key(key), key, validation.IsQualifiedName)...)
		errs = append(errs, named(at.Key(key), given[key], validation.IsValidLabelValue)...)
	}
	return errs
}

// tolerations is ValidateTolerations of Kubernetes, whose errors about the value are at the operator.
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
		if t.Key != "" {
			errs = append(errs, named(at.Child("key"), t.Key, validation.IsQualifiedName).WithOrigin("placement/toleration-key")...)
		}
		switch equal := t.Operator == "" || t.Operator == corev1.TolerationOpEqual; {
		case equal && t.Key == "":
			errs = append(errs, field.Required(at.Child("key"), "name the taint; operator 'Exists' without a key tolerates all").
				WithOrigin("placement/toleration-all"))
		case equal:
			errs = append(errs, named(at.Child("value"), t.Value, validation.IsValidLabelValue).WithOrigin("placement/toleration-value")...)
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			errs = append(errs, field.Forbidden(at.Child("value"), "operator 'Exists' takes none: remove the value, or use 'Equal'").
				WithOrigin("placement/toleration-no-value"))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Forbidden(at.Child("tolerationSeconds"), "needs effect 'NoExecute': remove it, or set the effect").
				WithOrigin("placement/toleration-seconds"))
		}
	}
	return errs
}

func probes(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	errs := probe(spec, spec.ReadinessProbe, path.Child("readinessProbe"))
	errs = append(errs, probe(spec, spec.LivenessProbe, path.Child("livenessProbe"))...)
	if p := spec.LivenessProbe; p != nil && p.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(path.Child("livenessProbe", "successThreshold"), p.SuccessThreshold,
			"must be 1, or left out").WithOrigin("placement/liveness-success"))
	}
	return errs
}

// probeForm is validateProbe, validateHTTPGetAction, validateTCPSocketAction and validateExecAction of Kubernetes, with the defaults that pods get: an absent
// number is 0.
func probeForm(probe *v1.Probe, path *field.Path) (errs field.ErrorList) {
	for _, number := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", probe.InitialDelaySeconds},
		{"timeoutSeconds", probe.TimeoutSeconds},
		{"periodSeconds", probe.PeriodSeconds},
		{"successThreshold", probe.SuccessThreshold},
		{"failureThreshold", probe.FailureThreshold},
	} {
		if number.value < 0 {
			errs = append(errs, field.Invalid(path.Child(number.name), number.value, "must not be negative").WithOrigin("placement/probe-number"))
		}
	}
	if probe.Exec != nil && len(probe.Exec.Command) == 0 {
		errs = append(errs, field.Required(path.Child("exec", "command"), "give the command that the guest runs").WithOrigin("placement/probe-command"))
	}
	if get := probe.HTTPGet; get != nil {
		errs = append(errs, probePort(get.Port, path.Child("httpGet", "port"))...)
		for i, header := range get.HTTPHeaders {
			errs = append(errs, named(path.Child("httpGet", "httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName).
				WithOrigin("placement/probe-header")...)
		}
	}
	if probe.TCPSocket != nil {
		errs = append(errs, probePort(probe.TCPSocket.Port, path.Child("tcpSocket", "port"))...)
	}
	return errs
}

// probePort takes a number, or the name of a port of the pod.
func probePort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return named(at, port.StrVal, validation.IsValidPortName).WithOrigin("placement/probe-port")
	}
	if findings := validation.IsValidPortNum(port.IntValue()); len(findings) > 0 {
		return field.ErrorList{field.Invalid(at, port.IntValue(), strings.Join(findings, "; ")).WithOrigin("placement/probe-port")}
	}
	return nil
}

// probe requires one handler. Handlers that use the network need the pod network.
// In KubeVirt it is validateProbe and appendStatusCauseForProbeNotAllowedWithNoPodNetworkPresent: the kubelet reaches a VMI at the address of its
// pod only.
func probe(spec *v1.VirtualMachineInstanceSpec, probe *v1.Probe, path *field.Path) (errs field.ErrorList) {
	if probe == nil {
		return nil
	}
	errs = probeForm(probe, path)
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
