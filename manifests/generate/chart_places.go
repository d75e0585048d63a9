package main

import (
	"fmt"
	"slices"
	"strings"
)

// A place is an element of objects that a value of the chart determines.
type place struct {
	kinds []string
	// name is the name of the object; empty for all objects of the kinds.
	name string
	// path is a field path as in kustomize's replacements. putToken describes the last steps.
	path string
	// template is the template of the chart at the path. '@' in it becomes the indentation below the path.
	template string
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

// containerOf returns the path of the container of a Deployment or DaemonSet. The name of the container is the name of the object without 'kiln-'.
func containerOf(object string) string {
	return pod + "containers.[name=" + strings.TrimPrefix(object, "kiln-") + "]."
}

// with returns a template that is used if a value is not empty.
func with(value, text string) string { return "{{- with " + value + " }}\n" + text + "\n{{- end }}" }

// when returns a template that is used under a condition.
func when(condition, text string) string {
	return "{{- if " + condition + " }}\n" + text + "\n{{- end }}"
}

// block returns a template of a key whose value is YAML of several lines. It is used if the value is not empty.
func block(key, value string) string { return with(value, key+":\n  {{- toYaml . | nindent @ }}") }

// places are all places. Their order is the order of items that they append to one list.
var places = slices.Concat(
	metricsPlaces("webhook"), metricsPlaces("controller"), metricsPlaces("apiserver"), certificates,
	deploymentPlaces("webhook"), deploymentPlaces("controller"), deploymentPlaces("apiserver"), daemonSet, cpuDaemonSet,
	controllerPlaces(), webhookPlaces(),
	namespacePlaces, []place{{configurations, "kiln-validating", "webhooks.-", carriersWebhook}}, // after what each webhook of the manifests gets
	configurationPlaces("webhook"), configurationPlaces("apiserver"), // the controller has no list of volumes: hasFiles
	userPlaces(deployments, "webhook"), userPlaces(deployments, "controller"), userPlaces(deployments, "apiserver"), userPlaces([]string{"DaemonSet"}, "devices"),
)

// controllerPlaces returns the places of values that only the controller has.
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
		variable("ADMISSION_NAMESPACES", "{{ .Values.admission.namespaces }}"),
		variable("ENFORCEMENT", "{{ .Values.admission.enforcement }}"),
		at("args.-", with(".Values.launcher.image.pullSecrets",
			"- --launcher-pull-secrets={{ range $i, $secret := . }}{{ if $i }},{{ end }}{{ $secret.name }}{{ end }}")),
	}
}

// webhookPlaces returns the places of values that only the webhook has.
func webhookPlaces() []place {
	container := containerOf("kiln-webhook")
	at := func(path, template string) place { return place{deployments, "kiln-webhook", path, template} }
	return []place{
		at(container+"env.[name=HOOK_IMAGE].value", `{{ include "kiln.hook-image" . | quote }}`),
		at(container+"env.[name=HOOK_PROTOCOL].value", "{{ .Values.kubevirt.hook }}"),
		at(container+"env.[name=ENFORCEMENT].value", "{{ .Values.admission.enforcement }}"),
		at(container+"env.[name=RUNTIME].value", "{{ .Values.runtime }}"),
		at(container+"args.-", "{{- range .Values.carriers }}\n- {{ printf \"--carrier=%s.%s=%s:%s\" .kind .group .makes .path | quote }}\n{{- end }}"),
		at(container+"args.-", when(asksClients, "- --client-ca-file=/etc/kiln/client-ca/ca.crt")),
		at(container+"args.-", with(".Values.clientCertificates.allowedNames", `- --client-allowed-names={{ join "," . }}`)),
		at(container+"volumeMounts.-", when(asksClients, "- {name: client-ca, mountPath: /etc/kiln/client-ca, readOnly: true}")),
		at(pod+"volumes.-", when(asksClients,
			"- {name: client-ca, configMap: {name: {{ .Values.clientCertificates.configMap | quote }}, optional: true}}")),
	}
}

// carriersWebhook is the webhook of the administrator's kinds that carry VMs.
const carriersWebhook = `{{- with .Values.carriers }}
- admissionReviewVersions: [v1]
  clientConfig:
    {{- with include "kiln.bundle" $ }}
    caBundle: {{ . }}
    {{- end }}
    service: {name: kiln-webhook, namespace: {{ include "kiln.namespace" $ | quote }}, path: /validate/carriers, port: 443}
  failurePolicy: {{ ternary "Ignore" $.Values.failurePolicy $.Values.kubevirt.beside | quote }}
  matchConditions:
  - {name: not-being-deleted, expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"}
  - {name: spec-changes, expression: "oldObject == null || object.?spec != oldObject.?spec"}
  matchPolicy: Equivalent
  name: carriers.validate.kilnvm.io
  namespaceSelector: {{- include "kiln.judged-namespaces" $ | nindent 4 }}
  objectSelector: {}
  rules:
  {{- range . }}
  - {apiGroups: [{{ .group | quote }}], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [{{ .resource | quote }}], scope: Namespaced}
  {{- end }}
  sideEffects: None
  timeoutSeconds: {{ ternary 1 5 $.Values.kubevirt.beside }}
{{- end }}`

// namespacePlaces are the places of the components beside-kubevirt, beside-kubevirt/opt-in and beside-kubevirt/warn in webhooks and bindings of policies:
// which namespaces they are about.
var namespacePlaces = func() []place {
	const judged = `{{- include "kiln.judged-namespaces" . | nindent @ }}`
	const of = "webhooks.*.namespaceSelector"
	all := []place{{configurations, "kiln-mutating", of, judged}, {configurations, "kiln-validating", of, judged}}
	add := func(selector, more string, names ...string) {
		const annotation = "annotations:\n  kilnvm.io/guests: kubevirt"
		resources := `matchResources:
  matchPolicy: Equivalent
  objectSelector: {}
  namespaceSelector: {{- include "` + selector + `" . | nindent 6 }}` + more
		for _, name := range names {
			all = append(all, place{[]string{"ValidatingAdmissionPolicyBinding"}, name, "spec.+", when(beside, resources)},
				place{[]string{"ValidatingAdmissionPolicyBinding"}, name, "metadata.+", when(beside, annotation)})
		}
	}
	add("kiln.judged-namespaces", "", "kiln-revision-writers", "kiln-guest-hardware", "kiln-guest-hardware-status")
	add("kiln.enforced-namespaces", "", "kiln-disks", "kiln-guest-updates", "kiln-networks", "kiln-virtualmachineinstances", "kiln-virtualmachines")
	add("kiln.enforced-namespaces", `
  {{- if eq .Values.admission.enforcement "Warn" }}
  resourceRules:
  - {apiGroups: [instancetype.kubevirt.io], apiVersions: [v1beta1], resources: ['*'], operations: [CREATE, UPDATE], scope: Namespaced}
  {{- end }}`, "kiln-instancetypes", "kiln-lifecycle", "kiln-preferences")
	return all
}()

// configurationPlaces returns the places that mount the configuration.
func configurationPlaces(component string) []place {
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

// both returns the conjunction of two conditions.
func both(one, other string) string { return "and (" + one + ") (" + other + ")" }

// certificates are the places of certificates: their issuer, their mounts, and the objects that trust them. The arguments of the controller come first, as in
// the overlays.
var certificates = func() []place {
	of := func(deployment, path, template string) place { return place{deployments, deployment, path, template} }
	const controller = "kiln-controller"
	args, services := containerOf(controller)+"args.-", []string{"APIService"}
	const mounted = pod + "volumes.[name=certs].secret.secretName"
	return []place{
		of(controller, args, when(rotates, "- --rotate-certificates")),
		of(controller, args, when(subresources, "- --launcher-client-ca-file=/etc/kiln/apiserver/ca.crt")),
		of(controller, args, when(both(subresources, rotates), "- --apiserver-cert-dir=/etc/kiln/apiserver")),
		of(controller, containerOf(controller)+"+", when(readsFiles, mountsFiles)),
		of(controller, pod+"+", when(readsFiles, hasFiles)),
		// kiln-policies has the webhooks that the controller copies from kiln-validating.
		{configurations, "kiln-mutating", "webhooks.*.clientConfig.+", with(`include "kiln.bundle" $`, "caBundle: {{ . }}")},
		{configurations, "kiln-validating", "webhooks.*.clientConfig.+", with(`include "kiln.bundle" $`, "caBundle: {{ . }}")},
		{configurations, "kiln-mutating", "metadata.+", injectedFrom("kiln-webhook")},
		{configurations, "kiln-validating", "metadata.+", injectedFrom("kiln-webhook")},
		{services, "", "spec.+", with(`include "kiln.apiserver-bundle" $`, "caBundle: {{ . }}")},
		{services, "", "metadata.+", injectedFrom("kiln-apiserver")},
		of("kiln-webhook", mounted, `{{ include "kiln.secret" . | quote }}`),
		of("kiln-apiserver", mounted, `{{ include "kiln.apiserver-secret" . | quote }}`),
	}
}()

// injectedFrom returns a template of the annotation by which cert-manager injects the CA of a certificate.
func injectedFrom(certificate string) string {
	return when(certManager, "annotations:\n  cert-manager.io/inject-ca-from: "+systemName+"/"+certificate)
}

// What manifests/overlays/rotation and manifests/apiserver add to the controller besides flags, and the configuration.
const (
	readsFiles  = "or (" + rotates + ") " + subresources + " " + configured
	mountsFiles = `volumeMounts:
{{- if ` + subresources + ` }}
- {name: apiserver, mountPath: /etc/kiln/apiserver, readOnly: true}
{{- end }}
{{- if ` + rotates + ` }}
- {name: certs, mountPath: /etc/kiln/certs, readOnly: true}
{{- end }}
{{- if ` + configured + ` }}
` + mountsConfiguration + `
{{- end }}`
	hasFiles = `volumes:
{{- if ` + subresources + ` }}
- name: apiserver
  projected:
    sources:
    - secret: {name: {{ include "kiln.apiserver-secret" . | quote }}, optional: true, items: [{key: tls.crt, path: tls.crt}]}
    - secret: {name: {{ include "kiln.apiserver-secret" . | quote }}, optional: true, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- if ` + rotates + ` }}
- {name: certs, secret: {secretName: kiln-webhook-tls, optional: true, items: [{key: tls.crt, path: tls.crt}]}}
{{- end }}
{{- if ` + configured + ` }}
` + hasConfiguration + `
{{- end }}`
)

// daemonSet are the places of 'launcher devices'.
var daemonSet = func() []place {
	at := func(path, template string) place { return place{[]string{"DaemonSet"}, "kiln-devices", path, template} }
	container := containerOf("kiln-devices")
	return []place{
		at(container+"image", `{{ include "kiln.launcher-image" . | quote }}`),
		at(container+"resources", "{{- toYaml .Values.devices.resources | nindent @ }}"),
		at(container+"args.-", when(`ne .Values.logLevel "info"`, "- --log-level={{ .Values.logLevel }}")),
		at(container+"args.-", when("ne (int .Values.devices.count) 1000", "- --device-count={{ .Values.devices.count }}")),
		at(container+"+", with(".Values.image.pullPolicy", "imagePullPolicy: {{ . }}")),
		at(pod+"volumes.[name=seccomp].hostPath.path", `{{ printf "%s/seccomp" .Values.devices.kubeletRoot | quote }}`),
		at(pod+"volumes.[name=containerd].hostPath.path", "{{ .Values.devices.containerd | quote }}"),
		at(pod+"nodeSelector", "{{- toYaml .Values.devices.nodeSelector | nindent @ }}"),
		at(pod+"tolerations", "{{- toYaml .Values.devices.tolerations | nindent @ }}"),
		at(pod+"+", block("imagePullSecrets", "concat .Values.global.imagePullSecrets .Values.devices.pullSecrets | uniq")),
		at("spec.template.metadata.+", block("annotations", ".Values.devices.podAnnotations")),
	}
}()

// emulates is the condition of a cluster whose guests run without KVM. A KubeVirt object of the cluster may set the field, too: the chart does not see it.
const emulates = `(dig "developerConfiguration" "useEmulation" false .Values.configuration)`

// cpuDaemonSet are the places of 'launcher cpu'. It runs where 'launcher devices' does.
var cpuDaemonSet = func() []place {
	at := func(path, template string) place {
		return place{[]string{"DaemonSet"}, "kiln-devices-cpu", path, template}
	}
	container := pod + "containers.[name=cpu]."
	return []place{
		at(container+"image", `{{ include "kiln.launcher-image" . | quote }}`),
		at(container+"resources", `{{- toYaml (dict "requests" (dict "cpu" "1m" "memory" "32Mi") "limits" (ternary (dict "memory" "512Mi") `+
			`(dict "memory" "512Mi" "devices.kubevirt.io/kvm" 1) `+emulates+`)) | nindent @ }}`),
		at(container+"args.-", when(`ne .Values.logLevel "info"`, "- --log-level={{ .Values.logLevel }}")),
		at("spec.template.metadata.labels.+", labelsTemplate(`include "kiln.pod-labels" (list . dict) | fromJson`)),
		at(container+"+", with(".Values.image.pullPolicy", "imagePullPolicy: {{ . }}")),
		at(pod+"nodeSelector", `{{- toYaml (merge (ternary (dict) (dict "kilnvm.io/kvm" "true") `+emulates+`) .Values.devices.nodeSelector) | nindent @ }}`),
		at(pod+"tolerations", "{{- toYaml .Values.devices.tolerations | nindent @ }}"),
		at(pod+"+", block("imagePullSecrets", "concat .Values.global.imagePullSecrets .Values.devices.pullSecrets | uniq")),
	}
}()

// metricsPlaces returns the places of the component metrics in one of the Deployments. They come first, as in the overlays.
func metricsPlaces(component string) []place {
	name := "kiln-" + component
	at := func(path, template string) place { return place{deployments, name, containerOf(name) + path, template} }
	return []place{
		at("args.-", when(measures, "- --metrics-bind-address=:8443\n- --metrics-secure")),
		at("ports.-", when(measures, "- {name: metrics, containerPort: 8443}")),
	}
}

// deploymentPlaces returns the places that each of the Deployments has.
func deploymentPlaces(component string) []place {
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

// userPlaces returns the places of labels, variables and arguments that users add to a pod. They come last, because the last one of a repeated argument
// counts.
func userPlaces(kinds []string, component string) []place {
	name, values := "kiln-"+component, ".Values."+component
	container := containerOf(name)
	at := func(path, template string) place { return place{kinds, name, path, template} }
	return []place{
		at("spec.template.metadata.labels.+", labelsTemplate(`include "kiln.pod-labels" (list . `+values+".podLabels) | fromJson")),
		at(container+"env.-", `{{- include "kiln.other-variables" (list "`+component+`" `+values+".extraEnv (list "+ownVariables+")) }}\n"+
			"{{- range "+values+".extraEnv }}\n- {{- toYaml . | nindent @ }}\n{{- end }}"),
		at(container+"args.-", "{{- range "+values+".extraArgs }}\n- {{ . | quote }}\n{{- end }}"),
	}
}

// labelsTemplate returns a template of labels that are added to others.
func labelsTemplate(value string) string {
	return "{{- range $key, $value := " + value + " }}\n{{ $key | quote }}: {{ $value | quote }}\n{{- end }}"
}
