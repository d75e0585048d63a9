{{- /* The namespace of webhook and controller. */}}
{{- define "kiln.namespace" -}}
{{- $name := .Values.namespace | default (eq .Release.Namespace "default" | ternary "kiln-system" .Release.Namespace) }}
{{- if eq $name .Values.launchers.namespace }}
{{- fail (printf "launchers.namespace: '%s' is that of the webhook: name another one, in which launchers cannot take the controllers' Lease" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- /* The namespace of KubeVirt's accounts: 'helm install' and 'helm upgrade' look for the KubeVirt object. A cluster that does not know the kind has none. */}}
{{- define "kiln.kubevirt-namespace" -}}
{{- if and .Values.kubevirt.beside .Values.apiserver.enabled }}
{{- fail "kubevirt.beside: KubeVirt serves the API group of apiserver.enabled itself; leave one of the two out" }}
{{- end }}
{{- $name := .Values.kubevirt.namespace }}
{{- if and (not $name) (.Capabilities.APIVersions.Has "kubevirt.io/v1/KubeVirt") }}
{{- range (lookup "kubevirt.io/v1" "KubeVirt" "" "").items }}
{{- $name = $name | default .metadata.namespace }}
{{- end }}
{{- end }}
{{- $name | default "kubevirt" }}
{{- end }}

{{- /* The labels of a ClusterRole that is added to Kubernetes' own roles. */}}
{{- define "kiln.role-labels" -}}
{{- $root := first . }}
{{- $labels := dict }}
{{- if eq $root.Values.roleAggregationStrategy "AggregateToDefault" }}
{{- range rest . }}
{{- $_ := set $labels . "true" }}
{{- end }}
{{- end }}
{{- merge $labels $root.Values.commonLabels | toYaml }}
{{- end }}

{{- define "kiln.image" -}}
{{- include "kiln.reference" (list . (include "kiln.repository" .) .Values.image.tag) }}
{{- end }}

{{- /* The image of the pods of guests. */}}
{{- define "kiln.launcher-image" -}}
{{- $repository := .Values.launcher.image.repository | default (printf "%s-launcher" (include "kiln.repository" .)) }}
{{- include "kiln.reference" (list . $repository .Values.launcher.image.tag) }}
{{- end }}

{{- /* A release for a registry has a default. In a checkout, a default would end in ErrImagePull. */}}
{{- define "kiln.repository" -}}
{{- required "image.repository: this chart names no image of Kiln. Make it ('make image' in a checkout of Kiln), push it to a registry of yours, and set image.repository=HOST/kiln,image.tag=TAG; docs/how-to/install.md has the commands" .Values.image.repository }}
{{- end }}

{{- /* The image of the hook by which guests that KubeVirt runs keep their hardware; empty for none. */}}
{{- define "kiln.hook-image" -}}
{{- if and (eq .Values.kubevirt.hook "Plugin") (not .Values.kubevirt.pinHardware) }}
{{- fail "kubevirt.hook: a Plugin is for recorded hardware; set it together with kubevirt.pinHardware" }}
{{- end }}
{{- if .Values.kubevirt.pinHardware }}
{{- if not .Values.kubevirt.beside }}
{{- fail "kubevirt.pinHardware: Kiln keeps the hardware of guests that it runs without it; set it together with kubevirt.beside" }}
{{- end }}
{{- include "kiln.launcher-image" . }}
{{- end }}
{{- end }}

{{- /* An image by its repository and tag. */}}
{{- define "kiln.reference" -}}
{{- $root := index . 0 }}
{{- $tag := index . 2 | default $root.Chart.AppVersion }}
{{- with $root.Values.global.imageRegistry }}{{ . }}/{{ end }}
{{- index . 1 }}{{ hasPrefix "sha256:" $tag | ternary "@" ":" }}{{ $tag }}
{{- end }}

{{- /* The Secret with the webhook's certificate. Its name is fixed where something else than its user writes it: rights name it. */}}
{{- define "kiln.secret" -}}
{{- if eq .Values.certificates.source "secret" }}
{{- required "certificates.secretName: with certificates.source 'secret', name the Secret with tls.crt and tls.key" .Values.certificates.secretName }}
{{- else }}kiln-webhook-tls
{{- end }}
{{- end }}

{{- /* The CA that the API server trusts, if somebody else than the rotation and cert-manager writes it. */}}
{{- define "kiln.bundle" -}}
{{- if eq .Values.certificates.source "secret" }}
{{- required "certificates.caBundle: with certificates.source 'secret', give the CA: --set-file certificates.caBundle=ca.crt" .Values.certificates.caBundle | b64enc }}
{{- end }}
{{- end }}

{{- /* As the two above, of the API server of subresources. */}}
{{- define "kiln.apiserver-secret" -}}
{{- if eq .Values.certificates.source "secret" }}
{{- required "certificates.apiserver.secretName: with certificates.source 'secret', name the Secret with tls.crt, tls.key and ca.crt" .Values.certificates.apiserver.secretName }}
{{- else }}kiln-apiserver-tls
{{- end }}
{{- end }}

{{- define "kiln.apiserver-bundle" -}}
{{- if eq .Values.certificates.source "secret" }}
{{- required "certificates.apiserver.caBundle: with certificates.source 'secret', give the CA: --set-file certificates.apiserver.caBundle=ca.crt" .Values.certificates.apiserver.caBundle | b64enc }}
{{- end }}
{{- end }}

{{- /* Not empty where the chart has what the Prometheus Operator reads. */}}
{{- define "kiln.monitors" -}}
{{- if eq (toString .Values.metrics.monitors) "auto" | ternary (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor") .Values.metrics.monitors }}yes{{ end }}
{{- end }}

{{- /* The peers of a network policy that are API servers. */}}
{{- define "kiln.api-servers" -}}
{{- range .Values.networkPolicy.apiServerCIDRs }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}

{{- /* The first part of the names of Deployments, and of the label by which they find their pods. */}}
{{- define "kiln.name" -}}
{{- .Values.nameOverride | default "kiln" }}
{{- end }}

{{- /* Labels of pods as a JSON object: commonLabels, which podLabels of the component override. */}}
{{- define "kiln.pod-labels" -}}
{{- mergeOverwrite (dict) (index . 0).Values.commonLabels (index . 1) | toJson }}
{{- end }}

{{- /* Annotations of the pods of a component that reads the configuration: another configuration is another Deployment, whose pods roll. */}}
{{- define "kiln.pod-annotations" -}}
{{- $root := index . 0 }}
{{- $all := mergeOverwrite (dict) (index . 1) }}
{{- with $root.Values.configuration }}
{{- $all = set $all "checksum/configuration" (toJson . | sha256sum) }}
{{- end }}
{{- with $all }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* Constraints of a component; one without labelSelector gets that of its Deployment. */}}
{{- define "kiln.spread" -}}
{{- $selector := dict "matchLabels" (dict "app.kubernetes.io/name" (printf "%s-%s" (include "kiln.name" (index . 0)) (index . 1))) }}
{{- $all := list }}
{{- range index . 2 }}
{{- $all = append $all (merge (dict) . (dict "labelSelector" (.labelSelector | default $selector))) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* Fails for a variable that the chart sets itself: an API server refuses a container that has one twice. */}}
{{- define "kiln.other-variables" -}}
{{- $component := index . 0 }}
{{- $own := index . 2 }}
{{- range index . 1 }}
{{- if has .name $own }}
{{- fail (printf "%s.extraEnv: the chart sets variable '%s' itself" $component .name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The namespaces that Kiln judges, and beside KubeVirt those in which it refuses. */}}
{{- define "kiln.judged-namespaces" -}}
{{- if .Values.kubevirt.beside -}}
matchExpressions:
- {{ eq .Values.admission.namespaces "OptIn" | ternary "{key: kilnvm.io/admission, operator: In, values: [enabled, warn]}" "{key: kilnvm.io/admission, operator: NotIn, values: [disabled]}" }}
{{- include "kiln.other-namespaces" . }}
{{- else -}}
{}
{{- end }}
{{- end }}

{{- define "kiln.enforced-namespaces" -}}
matchExpressions:
- {{ or (eq .Values.admission.namespaces "OptIn") (eq .Values.admission.enforcement "Warn") | ternary "{key: kilnvm.io/admission, operator: In, values: [enabled]}" "{key: kilnvm.io/admission, operator: NotIn, values: [disabled, warn]}" }}
{{- include "kiln.other-namespaces" . }}
{{- end }}

{{- /* Namespaces of the system, of Kiln and of KubeVirt are left out by their names: others could set a label of theirs. */}}
{{- define "kiln.other-namespaces" }}
- {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-public, kube-node-lease, {{ include "kiln.namespace" . | quote }}, {{ include "kiln.kubevirt-namespace" . | quote }}]}
{{- end }}

{{- /* Fails for what the schema cannot refuse. */}}
{{- define "kiln.checks" -}}
{{- if .Chart.IsRoot }}
{{- range $key, $_ := .Values.global }}
{{- if not (has $key (list "imageRegistry" "imagePullSecrets")) }}
{{- fail (printf "global.%s: there is no such value; global has imageRegistry and imagePullSecrets" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.configuration .Values.kubevirt.beside }}
{{- fail "configuration: beside KubeVirt its KubeVirt object has the configuration, for both; leave one of kubevirt.beside and configuration out" }}
{{- end }}
{{- if and (not .Values.kubevirt.beside) (or (ne .Values.admission.enforcement "Enforce") (ne .Values.admission.namespaces "OptOut")) }}
{{- fail "admission: without KubeVirt nobody else judges VMs; set enforcement and namespaces together with kubevirt.beside" }}
{{- end }}
{{- include "kiln.free-labels" (list "commonLabels" .Values.commonLabels) }}
{{- range $component := list "webhook" "controller" "apiserver" "devices" }}
{{- include "kiln.free-labels" (list (printf "%s.podLabels" $component) (index $.Values $component).podLabels) }}
{{- end }}
{{- end }}

{{- /* Fails for a label that the chart, Helm or Kubernetes sets: selectors would find other pods, or Pod Security and roles would be others. */}}
{{- define "kiln.free-labels" -}}
{{- $where := index . 0 }}
{{- $names := list "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/managed-by" "kubernetes.io/metadata.name" "kubevirt.io" "pod-template-hash" "pod-template-generation" "controller-revision-hash" }}
{{- range $key, $_ := index . 1 }}
{{- if or (has $key $names) (regexMatch "^(kilnvm\\.io|([^/]*\\.)?kubevirt\\.io|pod-security\\.kubernetes\\.io|rbac\\.authorization\\.k8s\\.io)/" $key) }}
{{- fail (printf "%s: label '%s' belongs to Kiln, Helm or Kubernetes, whose selectors or rules read it; choose another one" $where $key) }}
{{- end }}
{{- end }}
{{- end }}
