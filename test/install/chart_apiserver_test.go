package install

import (
	"fmt"
	"strings"
	"testing"
)

// TestOwnCertificateOfTheAPIServer: it has a Secret and an authority of its own. Without the value the chart has nothing of it.
func TestOwnCertificateOfTheAPIServer(t *testing.T) {
	const own = "certificates.source=secret,certificates.secretName=mine,certificates.caBundle=x"
	objects := rendered(t, own+",apiserver.enabled=true,certificates.apiserver.secretName=other,certificates.apiserver.caBundle=y")
	for name, secrets := range map[string]int{"kiln-apiserver": 1, "kiln-controller": 2, "kiln-webhook": 0} {
		text := fmt.Sprint(objects["Deployment kiln-system/"+name])
		named := strings.Count(strings.ToLower(text), "name:other") // name of a source, or secretName
		if named != secrets || strings.Contains(text, "kiln-apiserver-tls") || strings.Contains(text, "--apiserver-cert-dir") {
			t.Errorf("%s has the Secret in other than %d places, or is to sign: %s", name, secrets, text)
		}
	}
	for _, version := range []string{"v1", "v1alpha3"} {
		service := objects["APIService /"+version+".subresources.kubevirt.io"].(map[string]any)
		if bundle := service["spec"].(map[string]any)["caBundle"]; bundle != "eQ==" {
			t.Errorf("version %s has the CA '%v'", version, bundle)
		}
	}
	for _, values := range []string{
		"", own, "metrics.monitors=true", "networkPolicy.enabled=true,networkPolicy.apiServerCIDRs={203.0.113.0/24}", "certificates.source=cert-manager",
	} {
		for id, object := range rendered(t, values) {
			// One policy, and one monitor, for installations with the process and without.
			if strings.HasPrefix(id, "ValidatingAdmissionPolicy ") || strings.HasPrefix(id, "ServiceMonitor ") {
				continue
			}
			if text := id + fmt.Sprint(object); strings.Contains(text, "kiln-apiserver") || strings.Contains(text, "etc/kiln/apiserver") ||
				strings.HasPrefix(id, "APIService ") || strings.HasPrefix(id, "ClusterRole /kubevirt.io:") {
				t.Errorf("with '%s', %s is about the API server of subresources", values, id)
			}
		}
	}
}
