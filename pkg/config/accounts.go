package config

import (
	"cmp"
	"slices"
)

// DefaultKubeVirtNamespace is the namespace of KubeVirt's own manifests.
const DefaultKubeVirtNamespace = "kubevirt"

// Installation has the namespaces whose service accounts manage VMIs. A user who controls one of these namespaces may write the VMIs of all tenants.
type Installation struct {
	// Kiln is the namespace of Kiln. Empty means that Kiln has no accounts, as outside of admission.
	Kiln string
	// KubeVirt is the namespace of KubeVirt, empty for DefaultKubeVirtNamespace. It is trusted even if KubeVirt is not installed.
	KubeVirt string
}

// InstalledIn returns the configuration with the accounts of an installation in Limits. They replace the accounts that Limits had. The policies of
// manifests/policies name the same accounts.
func (c Cluster) InstalledIn(in Installation) Cluster {
	kubevirt := serviceAccount(cmp.Or(in.KubeVirt, DefaultKubeVirtNamespace))
	apiserver, controller, handler := kubevirt("kubevirt-apiserver"), kubevirt("kubevirt-controller"), kubevirt("kubevirt-handler")
	synchronization := kubevirt("kubevirt-synchronization-controller")
	c.Limits.KubeVirt = []string{apiserver, controller, handler, synchronization}
	c.Limits.Controllers = slices.Clone(c.Limits.KubeVirt)
	c.Limits.Launchers = []string{handler}
	c.Limits.Migrators = []string{controller, handler, synchronization} // Kiln migrates no VMI
	// The garbage collector has its own account with --use-service-account-credentials, else the account of kube-controller-manager.
	c.Limits.Collectors = []string{"system:kube-controller-manager", serviceAccount("kube-system")("generic-garbage-collector")}
	if in.Kiln == "" {
		return c
	}
	kiln := serviceAccount(in.Kiln)
	c.Limits.Controllers = append([]string{kiln("kiln-launcher"), kiln("kiln-controller"), kiln("kiln-apiserver")}, c.Limits.Controllers...)
	c.Limits.Restorers = []string{kiln("kiln-controller")}
	c.Limits.Updaters = []string{kiln("kiln-controller")}
	c.Limits.Launchers = append([]string{kiln("kiln-launcher")}, c.Limits.Launchers...)
	return c
}

// serviceAccount returns a function that returns the user name of a service account of a namespace by the name of the account.
func serviceAccount(namespace string) func(string) string {
	return func(name string) string { return "system:serviceaccount:" + namespace + ":" + name }
}
