package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// A place is an element of objects that a value of the chart decides: the kinds and the name (empty for all of the kinds), the path that put reads,
// and the template there.
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

const pod = "spec/template/spec/"

// with is a template that is there when a value is not empty.
func with(value, text string) string { return "{{- with " + value + " }}\n" + text + "\n{{- end }}" }

// when is a template that is there under a condition.
func when(condition, text string) string {
	return "{{- if " + condition + " }}\n" + text + "\n{{- end }}"
}

// block is a key whose value, if it is not empty, is YAML of several lines.
func block(key, value string) string { return with(value, key+":\n  {{- toYaml . | nindent @ }}") }

// places are all of them. The paths of lists of webhooks and containers are by position: what kustomize appends to a list comes last.
var places = slices.Concat(
	metrics("webhook"), metrics("controller"), metrics("apiserver"), certificates,
	deployment("webhook"), deployment("controller"), deployment("apiserver"), daemonSet,
	[]place{
		{deployments, "kiln-controller", pod + "containers/0/args/-", when(`ne .Values.collectAfter "1h"`, "- --collect-after={{ .Values.collectAfter }}")},
		{deployments, "kiln-controller", pod + "containers/0/env/2/value", "{{ .Values.runtime }}"},
		{deployments, "kiln-controller", pod + "containers/0/env/3/value", `{{ include "kiln.launcher-image" . | quote }}`},
		{deployments, "kiln-controller", pod + "containers/0/env/4/value", "{{ .Values.launcher.network }}"},
		{deployments, "kiln-controller", pod + "containers/0/env/5/value", "{{ .Values.launcher.taps | quote }}"},
		{deployments, "kiln-controller", pod + "containers/0/env/6/value", "{{ .Values.launcher.lockedMemory | quote }}"},
		{deployments, "kiln-controller", pod + "containers/0/env/7/value", `{{ ternary "kubevirt" "auto" .Values.kubevirt.beside }}`},
		{deployments, "kiln-controller", pod + "containers/0/args/-", with(".Values.launcher.image.pullSecrets",
			"- --launcher-pull-secrets={{ range $i, $secret := . }}{{ if $i }},{{ end }}{{ $secret.name }}{{ end }}")},
		{deployments, "kiln-webhook", pod + "containers/0/env/2/value", `{{ include "kiln.hook-image" . | quote }}`},
		{deployments, "kiln-webhook", pod + "containers/0/env/3/value", "{{ .Values.kubevirt.hook }}"},
		{deployments, "kiln-webhook", pod + "containers/0/args/-", when(asksClients, "- --client-ca-file=/etc/kiln/client-ca/ca.crt")},
		{deployments, "kiln-webhook", pod + "containers/0/args/-", with(".Values.clientCertificates.allowedNames",
			`- --client-allowed-names={{ join "," . }}`)},
		{deployments, "kiln-webhook", pod + "containers/0/volumeMounts/-", when(asksClients,
			"- {name: client-ca, mountPath: /etc/kiln/client-ca, readOnly: true}")},
		{deployments, "kiln-webhook", pod + "volumes/-", when(asksClients,
			"- {name: client-ca, configMap: {name: {{ .Values.clientCertificates.configMap | quote }}, optional: true}}")},
	},
	readsConfiguration("webhook"), readsConfiguration("apiserver"), // the controller has no list of volumes: hasFiles
	further(deployments, "webhook"), further(deployments, "controller"), further(deployments, "apiserver"), further([]string{"DaemonSet"}, "devices"),
	networks("webhook", "controller", "apiserver"),
)

// readsConfiguration are the places of the mounted configuration.
func readsConfiguration(component string) []place {
	return []place{
		{deployments, "kiln-" + component, pod + "containers/0/volumeMounts/-", when(configured, mountsConfiguration)},
		{deployments, "kiln-" + component, pod + "volumes/-", when(configured, hasConfiguration)},
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

// byName is the label of a namespace with its name. Paths have slashes between their steps, and this key has one in it.
const byName = "namespaceSelector/matchLabels/kubernetes.io~1metadata.name"

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
	at := func(path, template string) place {
		return place{deployments, "kiln-" + component, pod + "containers/0/" + path, template}
	}
	return []place{
		at("args/-", when(measures, "- --metrics-bind-address=:8443\n- --metrics-secure")),
		at("ports/-", when(measures, "- {name: metrics, containerPort: 8443}")),
	}
}

// deployment are the places of one of the Deployments.
func deployment(component string) []place {
	name, values := "kiln-"+component, ".Values."+component
	at := func(path, template string) place { return place{deployments, name, path, template} }
	return []place{
		at("spec/replicas", "{{ "+values+".replicas }}"),
		at(pod+"priorityClassName", "{{ .Values.priorityClassName | quote }}"),
		at(pod+"containers/0/image", `{{ include "kiln.image" . | quote }}`),
		at(pod+"containers/0/resources", "{{- toYaml "+values+".resources | nindent @ }}"),
		at(pod+"containers/0/args/-", when(`ne .Values.logLevel "info"`, "- --log-level={{ .Values.logLevel }}")),
		at(pod+"containers/0/+", with(".Values.image.pullPolicy", "imagePullPolicy: {{ . }}")),
		at(pod+"+", block("imagePullSecrets", "concat .Values.global.imagePullSecrets .Values.image.pullSecrets | uniq")),
		at(pod+"+", block("nodeSelector", values+".nodeSelector")),
		at(pod+"+", block("tolerations", values+".tolerations")),
		at(pod+"+", block("affinity", values+".affinity")),
		at(pod+"topologySpreadConstraints", `{{- include "kiln.spread" (list . "`+component+`" `+values+".topologySpreadConstraints) | nindent @ }}"),
		at(pod+"containers/0/args/-", when(configured, "- --config=/etc/kiln/configuration/configuration.json")),
		at("spec/template/metadata/+", block("annotations", `include "kiln.pod-annotations" (list . `+values+".podAnnotations) | fromYaml")),
		{[]string{"PodDisruptionBudget"}, name, "spec/maxUnavailable", "{{ " + values + ".podDisruptionBudget.maxUnavailable }}"},
	}
}

// further are the places of labels, variables and arguments that users add to those of a pod. They come last: of an argument that is there twice the last one
// counts.
func further(kinds []string, component string) []place {
	values := ".Values." + component
	at := func(path, template string) place { return place{kinds, "kiln-" + component, path, template} }
	return []place{
		at("spec/template/metadata/labels/+", labels(`include "kiln.pod-labels" (list . `+values+".podLabels) | fromJson")),
		at(pod+"containers/0/env/-", `{{- include "kiln.other-variables" (list "`+component+`" `+values+".extraEnv (list "+ownVariables+")) }}\n"+
			"{{- range "+values+".extraEnv }}\n- {{- toYaml . | nindent @ }}\n{{- end }}"),
		at(pod+"containers/0/args/-", "{{- range "+values+".extraArgs }}\n- {{ . | quote }}\n{{- end }}"),
	}
}

// labels is a template of labels among others.
func labels(value string) string {
	return "{{- range $key, $value := " + value + " }}\n{{ $key | quote }}: {{ $value | quote }}\n{{- end }}"
}
