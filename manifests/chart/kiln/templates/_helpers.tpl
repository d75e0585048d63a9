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

{{- define "kiln.image" -}}
{{- include "kiln.reference" (list .Values.image .Chart.AppVersion) }}
{{- end }}

{{- /* The image of the pods of guests. */}}
{{- define "kiln.launcher-image" -}}
{{- include "kiln.reference" (list .Values.launcher.image .Chart.AppVersion) }}
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

{{- /* An image by its values and the version of the chart. */}}
{{- define "kiln.reference" -}}
{{- $image := index . 0 }}
{{- $tag := $image.tag | default (index . 1) }}
{{- $image.repository }}{{ hasPrefix "sha256:" $tag | ternary "@" ":" }}{{ $tag }}
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

{{- /* The peers of a network policy that are API servers. */}}
{{- define "kiln.api-servers" -}}
{{- range .Values.networkPolicy.apiServerCIDRs }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}
