package main

// daemonSet are the places of 'launcher devices'. Its volumes are by position.
var daemonSet = func() []place {
	at := func(path, template string) place { return place{[]string{"DaemonSet"}, "kiln-devices", path, template} }
	return []place{
		at(pod+"containers/0/image", `{{ include "kiln.launcher-image" . | quote }}`),
		at(pod+"containers/0/resources", "{{- toYaml .Values.devices.resources | nindent @ }}"),
		at(pod+"containers/0/args/-", when(`ne .Values.logLevel "info"`, "- --log-level={{ .Values.logLevel }}")),
		at(pod+"containers/0/args/-", when("ne (int .Values.devices.count) 1000", "- --device-count={{ .Values.devices.count }}")),
		at(pod+"containers/0/+", with(".Values.image.pullPolicy", "imagePullPolicy: {{ . }}")),
		at(pod+"volumes/1/hostPath/path", `{{ printf "%s/seccomp" .Values.devices.kubeletRoot | quote }}`),
		at(pod+"volumes/4/hostPath/path", "{{ .Values.devices.containerd | quote }}"),
		at(pod+"nodeSelector", "{{- toYaml .Values.devices.nodeSelector | nindent @ }}"),
		at(pod+"tolerations", "{{- toYaml .Values.devices.tolerations | nindent @ }}"),
		at(pod+"+", block("imagePullSecrets", "concat .Values.global.imagePullSecrets .Values.devices.pullSecrets | uniq")),
		at("spec/template/metadata/+", block("annotations", ".Values.devices.podAnnotations")),
	}
}()
