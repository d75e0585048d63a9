package main

// certificates are the places of who signs, where the certificates are mounted, and who trusts them. Of the arguments of the controller these come first,
// as in the overlays.
var certificates = func() []place {
	of := func(name, path, template string) place { return place{deployments, name, pod + path, template} }
	services := []string{"APIService"}
	all := []place{
		of("kiln-controller", "containers/0/args/-", when(rotates, "- --rotate-certificates")),
		of("kiln-controller", "containers/0/args/-", when(subresources, "- --launcher-client-ca-file=/etc/kiln/apiserver/ca.crt")),
		of("kiln-controller", "containers/0/args/-", when(both(subresources, rotates), "- --apiserver-cert-dir=/etc/kiln/apiserver")),
		of("kiln-controller", "containers/0/+", when(readsFiles, mountsFiles)),
		of("kiln-controller", "+", when(readsFiles, hasFiles)),
		{configurations, "", "webhooks/*/clientConfig/+", with(`include "kiln.bundle" $`, "caBundle: {{ . }}")},
		{configurations, "", "metadata/+", injectedFrom("kiln-webhook")},
		{services, "", "spec/+", with(`include "kiln.apiserver-bundle" $`, "caBundle: {{ . }}")},
		{services, "", "metadata/+", injectedFrom("kiln-apiserver")},
	}
	const mounted = "volumes/0/secret/secretName"
	return append(all, of("kiln-webhook", mounted, `{{ include "kiln.secret" . | quote }}`),
		of("kiln-apiserver", mounted, `{{ include "kiln.apiserver-secret" . | quote }}`))
}()

// injectedFrom has cert-manager write the CA of a certificate.
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

// networks are the places of network policies: the last rule of ingress is for whoever reads metrics, and one before it for API servers.
func networks(components ...string) (all []place) {
	for _, component := range components {
		of := func(path, template string) place {
			return place{[]string{"NetworkPolicy"}, "kiln-" + component, path, template}
		}
		last := "1"
		if component == "controller" { // nobody else connects to it
			last = "0"
		} else {
			all = append(all, of("spec/ingress/0/from", `{{- include "kiln.api-servers" . | nindent @ }}`))
		}
		all = append(all, of("spec/egress/0/to", `{{- include "kiln.api-servers" . | nindent @ }}`),
			of("spec/ingress/"+last+"/from/0/"+byName, "{{ .Values.networkPolicy.metricsNamespace | quote }}"))
	}
	return all
}
