package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// A place is an element of objects that a value of the chart decides: the kinds and the name (empty for all of the kinds), the path that put reads,
// and the template there. Paths are those of kustomize's replacements: an item of a list has the step [name=NAME].
type place struct {
	kinds          []string
	name           string
	path, template string
}

func (p place) isOf(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	return slices.Contains(p.kinds, fmt.Sprint(object["kind"])) && (p.name == "" || p.name == metadata["name"])
}

var (
	deployments    = []string{"Deployment"}
	configurations = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)

const pod = "spec.template.spec."

// containerOf is the path of the container of a Deployment or DaemonSet, whose name is that of the object without 'kiln-'.
func containerOf(object string) string {
	return pod + "containers.[name=" + strings.TrimPrefix(object, "kiln-") + "]."
}

// with is a template that is there when a value is not empty.
func with(value, text string) string { return "{{- with " + value + " }}\n" + text + "\n{{- end }}" }

// when is a template that is there under a condition.
func when(condition, text string) string {
	return "{{- if " + condition + " }}\n" + text + "\n{{- end }}"
}

// block is a key whose value, if it is not empty, is YAML of several lines.
func block(key, value string) string { return with(value, key+":\n  {{- toYaml . | nindent @ }}") }

// places are all of them. What is appended to one list has the order of this list.
var places = slices.Concat(
	metrics("webhook"), metrics("controller"), metrics("apiserver"), certificates,
	deployment("webhook"), deployment("controller"), deployment("apiserver"), daemonSet,
	controllerPlaces(), webhookPlaces(),
	readsConfiguration("webhook"), readsConfiguration("apiserver"), // the controller has no list of volumes: hasFiles
	further(deployments, "webhook"), further(deployments, "controller"), further(deployments, "apiserver"), further([]string{"DaemonSet"}, "devices"),
)

// controllerPlaces are the places of the controller's own values.
func controllerPlaces() []place {
	container := containerOf("kiln-controller")
	at := func(path, template string) place {
		return place{deployments, "kiln-controller", container + path, template}
	}
	variable := func(name, template string) place { return at("env.[name="+name+"].value", template) }
	return []place{
		at("args.-", when(`ne .Values.collectAfter "1h"`, "- --collect-after={{ .Values.collectAfter }}")),
		variable("RUNTIME", "{{ .Values.runtime }}"),
		variable("LAUNCHER_IMAGE", `{{ include "kiln.launcher-image" . | quote }}`),
		variable("GUEST_NETWORK", "{{ .Values.launcher.network }}"),
		variable("GUEST_TAPS", "{{ .Values.launcher.taps | quote }}"),
		variable("GUEST_LOCKED_MEMORY", "{{ .Values.launcher.lockedMemory | quote }}"),
		variable("GUESTS", `{{ ternary "kubevirt" "auto" .Values.kubevirt.beside }}`),
		at("args.-", with(".Values.launcher.image.pullSecrets",
			"- --launcher-pull-secrets={{ range $i, $secret := . }}{{ if $i }},{{ end }}{{ $secret.name }}{{ end }}")),
	}
}

// webhookPlaces are the places of the webhook's own values.
func webhookPlaces() []place {
	container := containerOf("kiln-webhook")
	at := func(path, template string) place { return place{deployments, "kiln-webhook", path, template} }
	return []place{
		at(container+"env.[name=HOOK_IMAGE].value", `{{ include "kiln.hook-image" . | quote }}`),
		at(container+"env.[name=HOOK_PROTOCOL].value", "{{ .Values.kubevirt.hook }}"),
		at(container+"args.-", when(asksClients, "- --client-ca-file=/etc/kiln/client-ca/ca.crt")),
		at(container+"args.-", with(".Values.clientCertificates.allowedNames", `- --client-allowed-names={{ join "," . }}`)),
		at(container+"volumeMounts.-", when(asksClients, "- {name: client-ca, mountPath: /etc/kiln/client-ca, readOnly: true}")),
		at(pod+"volumes.-", when(asksClients,
			"- {name: client-ca, configMap: {name: {{ .Values.clientCertificates.configMap | quote }}, optional: true}}")),
	}
}

// readsConfiguration are the places of the mounted configuration.
func readsConfiguration(component string) []place {
	name := "kiln-" + component
	return []place{
		{deployments, name, containerOf(name) + "volumeMounts.-", when(configured, mountsConfiguration)},
		{deployments, name, pod + "volumes.-", when(configured, hasConfiguration)},
	}
}

const (
	mountsConfiguration = "- {name: configuration, mountPath: /etc/kiln/configuration, readOnly: true}"
	hasConfiguration    = "- {name: configuration, configMap: {name: kiln-configuration}}"
)

// Conditions: the built-in rotation, cert-manager, metrics, client certificates, a configuration, the API server of subresources.
const (
	rotates      = `eq .Values.certificates.source "rotation"`
	certManager  = `eq .Values.certificates.source "cert-manager"`
	measures     = ".Values.metrics.enabled"
	asksClients  = ".Values.clientCertificates.configMap"
	configured   = ".Values.configuration"
	subresources = ".Values.apiserver.enabled"
	monitored    = `include "kiln.monitors" .`
)

// both is a condition of two.
func both(one, other string) string { return "and (" + one + ") (" + other + ")" }

// conditionOf is the whole condition under which the chart has an object.
func conditionOf(o chartObject) string {
	condition := choiceOf(o)
	switch {
	case o.only == "":
		return condition
	case condition == "":
		return o.only
	}
	return both(condition, o.only)
}

// choiceOf is that condition but for KubeVirt.
func choiceOf(o chartObject) string {
	metadata, _ := o.object["metadata"].(map[string]any)
	name := fmt.Sprint(metadata["name"])
	switch {
	case o.object["kind"] == "CustomResourceDefinition" && strings.HasSuffix(name, "kubevirt.io"):
		return ".Values.kubevirt.definitions"
	case o.object["kind"] == "Namespace" && name == systemName:
		return `ne (include "kiln.namespace" .) .Release.Namespace` // Helm makes that of the release
	}
	if component, is := strings.CutPrefix(name, "kiln-"); is && o.object["kind"] == "PodDisruptionBudget" {
		enabled := ".Values." + component + ".podDisruptionBudget.enabled"
		if o.when == "" {
			return enabled
		}
		return both(o.when, enabled)
	}
	if strings.HasPrefix(name, "kiln-devices") {
		return ".Values.devices.enabled"
	}
	if strings.HasPrefix(fmt.Sprint(o.object["apiVersion"]), "monitoring.coreos.com/") {
		return both(o.when, monitored)
	}
	return o.when
}

// stay adds the annotation by which Helm leaves an object that an uninstall must leave.
func stay(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	if labels, _ := metadata["labels"].(map[string]any); labels[v1alpha1.LabelUninstall] != "keep" {
		return
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations["helm.sh/resource-policy"] = "keep"
	metadata["annotations"] = annotations
}

// metrics are the places of component metrics in one of the Deployments. They come first, as in the overlays.
func metrics(component string) []place {
	name := "kiln-" + component
	at := func(path, template string) place { return place{deployments, name, containerOf(name) + path, template} }
	return []place{
		at("args.-", when(measures, "- --metrics-bind-address=:8443\n- --metrics-secure")),
		at("ports.-", when(measures, "- {name: metrics, containerPort: 8443}")),
	}
}

// deployment are the places of one of the Deployments.
func deployment(component string) []place {
	name, values := "kiln-"+component, ".Values."+component
	container := containerOf(name)
	at := func(path, template string) place { return place{deployments, name, path, template} }
	return []place{
		at("spec.replicas", "{{ "+values+".replicas }}"),
		at(pod+"priorityClassName", "{{ .Values.priorityClassName | quote }}"),
		at(container+"image", `{{ include "kiln.image" . | quote }}`),
		at(container+"resources", "{{- toYaml "+values+".resources | nindent @ }}"),
		at(container+"args.-", when(`ne .Values.logLevel "info"`, "- --log-level={{ .Values.logLevel }}")),
		at(container+"+", with(".Values.image.pullPolicy", "imagePullPolicy: {{ . }}")),
		at(pod+"+", block("imagePullSecrets", "concat .Values.global.imagePullSecrets .Values.image.pullSecrets | uniq")),
		at(pod+"+", block("nodeSelector", values+".nodeSelector")),
		at(pod+"+", block("tolerations", values+".tolerations")),
		at(pod+"+", block("affinity", values+".affinity")),
		at(pod+"topologySpreadConstraints", `{{- include "kiln.spread" (list . "`+component+`" `+values+".topologySpreadConstraints) | nindent @ }}"),
		at(container+"args.-", when(configured, "- --config=/etc/kiln/configuration/configuration.json")),
		at("spec.template.metadata.+", block("annotations", `include "kiln.pod-annotations" (list . `+values+".podAnnotations) | fromYaml")),
		{[]string{"PodDisruptionBudget"}, name, "spec.maxUnavailable", "{{ " + values + ".podDisruptionBudget.maxUnavailable }}"},
	}
}

// further are the places of labels, variables and arguments that users add to those of a pod. They come last: of an argument that is there twice the last one
// counts.
func further(kinds []string, component string) []place {
	name, values := "kiln-"+component, ".Values."+component
	container := containerOf(name)
	at := func(path, template string) place { return place{kinds, name, path, template} }
	return []place{
		at("spec.template.metadata.labels.+", labels(`include "kiln.pod-labels" (list . `+values+".podLabels) | fromJson")),
		at(container+"env.-", `{{- include "kiln.other-variables" (list "`+component+`" `+values+".extraEnv (list "+ownVariables+")) }}\n"+
			"{{- range "+values+".extraEnv }}\n- {{- toYaml . | nindent @ }}\n{{- end }}"),
		at(container+"args.-", "{{- range "+values+".extraArgs }}\n- {{ . | quote }}\n{{- end }}"),
	}
}

// labels is a template of labels among others.
func labels(value string) string {
	return "{{- range $key, $value := " + value + " }}\n{{ $key | quote }}: {{ $value | quote }}\n{{- end }}"
}
