package main

// certificates are the places of who signs, where the certificates are mounted, and who trusts them. Of the arguments of the controller these come first,
// as in the overlays.
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
		{configurations, "", "webhooks.*.clientConfig.+", with(`include "kiln.bundle" $`, "caBundle: {{ . }}")},
		{configurations, "", "metadata.+", injectedFrom("kiln-webhook")},
		{services, "", "spec.+", with(`include "kiln.apiserver-bundle" $`, "caBundle: {{ . }}")},
		{services, "", "metadata.+", injectedFrom("kiln-apiserver")},
		of("kiln-webhook", mounted, `{{ include "kiln.secret" . | quote }}`),
		of("kiln-apiserver", mounted, `{{ include "kiln.apiserver-secret" . | quote }}`),
	}
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
