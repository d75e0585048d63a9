// Package catalogsource reads catalogs from folders, registries and the cluster, and writes published catalogs into folders.
package catalogsource

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/oci"
	"github.com/kilnvm/kiln/internal/version"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/spf13/cobra"
)

// Reader reads catalogs from folders, registries and the cluster.
type Reader struct {
	session *cmdutil.Session
	// registry has the values of --plain-http and --registry-ca.
	registry oci.Options
	pulled   oci.Pulled
}

// Pulled returns the published catalog that ReadCatalog has read last; the zero value if it has read none.
func (o *Reader) Pulled() oci.Pulled { return o.pulled }

// New returns a source with the streams and the cluster of the run.
func New(s *cmdutil.Session) Reader { return Reader{session: s} }

// Usage is the help of a flag that names a catalog.
const Usage = "catalog to choose from: a folder, a file, '-', an OCI reference, or 'cluster' for the catalog of the current cluster and namespace"

// Cluster is the source that means the current cluster. A folder of this name is './cluster'.
const Cluster = "cluster"

// ReadCatalog reads the catalog that a source names. Objects of files without a namespace get the namespace of the kubeconfig, if there is one. Files and
// objects that cannot be read or are refused are in Refused of the result, and the caller decides whether they are an error. A catalog without any object is an
// error.
func (o *Reader) ReadCatalog(ctx context.Context, source string) (catalogs.Catalog, error) {
	// The error matters only for the cluster: a pipeline that judges files has no kubeconfig.
	namespace, err := o.session.Cluster.Namespace()
	if source == Cluster {
		if err != nil {
			return catalogs.Catalog{}, err
		}
		cluster, err := o.session.Client()
		if err != nil {
			return catalogs.Catalog{}, err
		}
		return catalogs.FromCluster(ctx, cluster, namespace)
	}
	files, err := o.catalogFiles(ctx, source)
	if err != nil {
		return catalogs.Catalog{}, err
	}
	// From here on the source is only used in findings and reports.
	if source == "-" {
		source = manifest.StandardInput
	}
	read, err := catalogs.Parse(source, namespace, files)
	if err == nil && len(read.Objects) == 0 && len(read.Refused) == 0 {
		err = fmt.Errorf("no instancetype and no preference in %s", source)
	}
	return read, err
}

// catalogFiles reads the files of a catalog from a registry or from this machine.
func (o *Reader) catalogFiles(ctx context.Context, source string) ([]manifest.File, error) {
	if !strings.HasPrefix(source, oci.Scheme) {
		return manifest.ReadFolder(source, o.session.In)
	}
	client, err := o.RegistryClient()
	if err != nil {
		return nil, err
	}
	o.pulled, err = client.Pull(ctx, source)
	return catalogs.FilesOf(o.pulled.Artifact), err
}

// AddRegistry adds the flags for the connection to a registry. There is no flag for credentials, because others could read it in the list of processes.
func (o *Reader) AddRegistry(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.registry.PlainHTTP, "plain-http", false, "reach the registry by HTTP instead of HTTPS")
	cmd.Flags().StringVar(&o.registry.CAFile, "registry-ca", "", "file with further certificate authorities of registries, in PEM")
}

// RegistryClient returns a client with docker's credentials. Its User-Agent contains Kiln's version.
// It must be called when a command runs, because the flags are not parsed before.
func (o *Reader) RegistryClient() (*oci.Client, error) {
	o.registry.UserAgent = "kubectl-kiln/" + version.Read().Version
	return oci.New(o.registry)
}
