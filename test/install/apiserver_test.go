package install

import "testing"

// withAPIServer installs with the API server of subresources, and uninstalls in the order of docs/how-to/install.md. No pod runs here, so that its APIServices
// are not available: a namespace that is deleted stays, until the first step of the uninstall lets it go, long before the process would be gone.
func (p plane) withAPIServer(t *testing.T, install, uninstall func()) {
	const first, second = "apiservice/v1.subresources.kubevirt.io", "apiservice/v1alpha3.subresources.kubevirt.io"
	install()
	p.must(t, "wait", "--for=condition=Available=false", "--timeout=60s", first, second)
	p.must(t, "create", "namespace", "ends")
	p.must(t, "delete", "namespace", "ends", "--wait=false")
	p.eventually(t, "the namespace waits for the group", func() bool {
		const status = `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].status}`
		return p.must(t, "get", "namespace", "ends", "-o", status) == "True"
	})
	p.must(t, "delete", "mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating",
		"validatingwebhookconfiguration/kiln-policies")
	p.must(t, "delete", "--ignore-not-found", first, second)
	p.eventually(t, "the namespace is gone while the Deployment is there", func() bool {
		return p.must(t, "get", "namespace", "ends", "--ignore-not-found", "-o", "name") == ""
	})
	p.must(t, "get", "-n", "kiln-system", "deployment", "kiln-apiserver")
	p.create(t, "before", "")
	uninstall()
	p.uninstalled(t)
	p.removed(t)
}
