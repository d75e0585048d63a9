package cluster

import (
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The service accounts of manifests/rbac.
const (
	webhookAccount    = "kiln-webhook"
	controllerAccount = "kiln-controller"
	launcherAccount   = "kiln-launcher"
	apiServerAccount  = "kiln-apiserver"
)

// credential prints a new token of a service account as client-go wants it from a credential plugin.
const credential = `go-template={"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",` +
	`"status":{"token":"{{.status.token}}","expirationTimestamp":"{{.status.expirationTimestamp}}"}}`

// access returns the path of a new kubeconfig for a service account of Kiln's namespace. With it a program has the rights of manifests/rbac and no more,
// as in a pod. kubectl is its credential plugin and renews the token before it expires, because the program may run for days.
func (c *Cluster) access(account string) (string, error) { return c.accessIn(c.Namespace, account) }

// accessIn returns the path of a new kubeconfig for a service account of any namespace.
func (c *Cluster) accessIn(namespace, account string) (string, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(c.Kubeconfig)}
	config, err := rules.Load()
	if err != nil {
		return "", err
	}
	// Only the current context, and certificates in place of paths to them: those may be relative to the user's file.
	if err := api.MinifyConfig(config); err != nil {
		return "", err
	}
	if err := api.FlattenConfig(config); err != nil {
		return "", err
	}
	config.AuthInfos = map[string]*api.AuthInfo{account: {Exec: &api.ExecConfig{
		APIVersion:      "client.authentication.k8s.io/v1",
		Command:         c.kubectl(),
		Args:            []string{"create", "token", account, "-n", namespace, "-o", credential},
		Env:             []api.ExecEnvVar{{Name: "KUBECONFIG", Value: c.Kubeconfig}},
		InteractiveMode: api.NeverExecInteractiveMode,
	}}}
	config.Contexts[config.CurrentContext].AuthInfo = account
	path := filepath.Join(c.Dir, account+".kubeconfig")
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o600)
}
