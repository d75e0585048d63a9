package main

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
