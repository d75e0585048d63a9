// Package kubectl finds the cluster of a run as kubectl does: by kubectl's flags of the connection, such as --namespace and --context, and the kubeconfig.
package kubectl

import (
	"io"

	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Flags are kubectl's flags of the connection. They are a cmdutil.Cluster.
type Flags struct {
	flags *genericclioptions.ConfigFlags
}

// NewFlags returns flags without values, with which the current context of the kubeconfig is used. The kubeconfig is read only once in a run.
func NewFlags() *Flags { return &Flags{genericclioptions.NewConfigFlags(true)} }

// AddTo adds the flags to a command.
func (f *Flags) AddTo(flags *pflag.FlagSet) { f.flags.AddFlags(flags) }

// Namespace returns the namespace of the flags, otherwise of the kubeconfig, otherwise 'default'.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// NamespaceFlag returns the value of --namespace.
func (f *Flags) NamespaceFlag() string {
	if f.flags.Namespace == nil {
		return ""
	}
	return *f.flags.Namespace
}

// User returns the account of --as, --as-group and --as-uid, for policies that read request.userInfo.
func (f *Flags) User() (by authenticationv1.UserInfo) {
	if f.flags.Impersonate != nil {
		by.Username = *f.flags.Impersonate
	}
	if f.flags.ImpersonateUID != nil {
		by.UID = *f.flags.ImpersonateUID
	}
	if f.flags.ImpersonateGroup != nil {
		by.Groups = *f.flags.ImpersonateGroup
	}
	return by
}

// RESTConfig returns the configuration of a connection to the current cluster.
func (f *Flags) RESTConfig() (*rest.Config, error) { return f.flags.ToRESTConfig() }

// Client returns a client of the current cluster that knows the Go types of Kubernetes, KubeVirt and Kiln.
func (f *Flags) Client(warnings io.Writer) (client.Client, error) {
	access, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	if warnings != nil {
		access.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	}
	known, err := crdschema.Scheme()
	if err != nil {
		return nil, err
	}
	access.QPS = -1 // a catalog of 10,000 objects takes 20,000 requests: the API server's priority and fairness limits them, not client-go's 5 a second
	return client.New(access, client.Options{Scheme: known})
}

// Objects reads objects with kubectl's builder, so that names, short names and errors are the same as in kubectl.
func (f *Flags) Objects(names []string) (found []*unstructured.Unstructured, err error) {
	namespace, err := f.Namespace()
	if err != nil {
		return nil, err
	}
	infos, err := resource.NewBuilder(f.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, names...).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if untyped, ok := info.Object.(*unstructured.Unstructured); ok {
			found = append(found, untyped)
		}
	}
	return found, nil
}
