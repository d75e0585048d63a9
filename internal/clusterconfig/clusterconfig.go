// Package clusterconfig reads the configuration of a cluster from a file or from the KubeVirt object, and keeps it current. Without either, KubeVirt's defaults
// are the configuration.
package clusterconfig

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Reading is a configuration with its source.
type Reading struct {
	// Cluster is the configuration as the newest KubeVirt reads it. It is in force if Kiln runs the guests.
	config.Cluster
	// TLS is what Kiln's servers follow.
	TLS ServerTLS
	// Warnings name the fields that have no effect.
	Warnings []string
	// Source is the file or the object. It is empty if nobody configured anything: then the configuration is KubeVirt's defaults.
	Source string

	// object is the KubeVirt object, or an object with the configuration of a file; nil without either.
	object *v1.KubeVirt
}

// BesideKubeVirt returns the configuration if KubeVirt runs the guests: as the KubeVirt of a version reads it. 0 stands for the version that the cluster runs,
// or the newest if that is not known.
func (r Reading) BesideKubeVirt(version config.Version) config.Cluster {
	cluster := r.asVersion(version)
	cluster.Frontend.BIOS = config.BIOS{} // KubeVirt writes no strings of the BIOS
	return cluster
}

// asVersion returns the configuration as the KubeVirt of a version reads it.
func (r Reading) asVersion(version config.Version) config.Cluster {
	switch {
	case r.object == nil && version == 0:
		return r.Cluster
	case r.object == nil:
		cluster, _ := version.FromKubeVirt(v1.KubeVirtConfiguration{})
		return cluster
	case version == 0:
		version, _ = versionOf(r.object)
	}
	return clusterOf(r.object, version)
}

// VersionWarnings returns a warning if Kiln does not know the version of KubeVirt that the cluster runs.
func (r Reading) VersionWarnings() []string {
	if r.object == nil {
		return nil
	}
	_, warnings := versionOf(r.object)
	return warnings
}

// versionOf returns the version of KubeVirt that virt-operator has installed, and a warning if Kiln does not know the version. The version is 0 if
// virt-operator has written none. Only virt-operator writes this status; labels and images of Deployments have the versions of the products that ship KubeVirt.
func versionOf(object *v1.KubeVirt) (config.Version, []string) {
	text := object.Status.ObservedKubeVirtVersion
	if text == "" {
		return 0, nil
	}
	version, err := config.ParseVersion(text)
	if err == nil && version == version.Nearest() {
		return version, nil
	}
	return version, []string{fmt.Sprintf("status.observedKubeVirtVersion is '%.64s', and Kiln knows %s to %s: the rules of %s apply, unless --kubevirt-version "+
		"names another version", text, config.Oldest, config.Newest, version.Nearest())}
}

// clusterOf returns the configuration of a KubeVirt object that has no mistake, as a version reads it.
func clusterOf(object *v1.KubeVirt, version config.Version) config.Cluster {
	cluster, _ := version.FromKubeVirt(object.Spec.Configuration)
	_, even := object.Annotations[evenThreads]
	cluster.Defaults.EvenEmulatorThreads = even && cluster.Limits.Gates["AlignCPUs"]
	return cluster
}

// evenThreads is KubeVirt's annotation of the KubeVirt object, see config.Defaults.EvenEmulatorThreads.
const evenThreads = v1.EmulatorThreadCompleteToEvenParity

// Read returns the configuration of a file. If file is empty, it returns the configuration of the KubeVirt object that the reader finds. The reader may be nil.
func Read(ctx context.Context, file string, reader client.Reader) (Reading, error) {
	switch {
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return Reading{}, err
		}
		return readFile(file, data)
	case reader == nil:
		return Reading{Cluster: config.Default()}, nil
	}
	read, err := readObject(ctx, reader)
	if meta.IsNoMatchError(err) { // KubeVirt is not installed
		return Reading{Cluster: config.Default()}, nil
	}
	return read, err
}

// readObject reads the KubeVirt object. A cluster has at most one. If it has several, the first one by namespace and name counts.
func readObject(ctx context.Context, reader client.Reader) (Reading, error) {
	var list v1.KubeVirtList
	if err := reader.List(ctx, &list); err != nil {
		return Reading{}, err
	}
	if len(list.Items) == 0 {
		return Reading{Cluster: config.Default()}, nil
	}
	first := slices.MinFunc(list.Items, func(a, b v1.KubeVirt) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return newReading(fmt.Sprintf("KubeVirt %s/%s", first.Namespace, first.Name), &first)
}

// readFile reads a configuration that is the content of a file.
func readFile(file string, data []byte) (Reading, error) {
	object, err := decodeKubeVirt(data)
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", file, err)
	}
	return newReading(file, object)
}

// newReading returns the configuration of an object. Its error names every wrong field.
func newReading(source string, object *v1.KubeVirt) (Reading, error) {
	cluster, warnings, err := fromObject(object)
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", source, err)
	}
	secured, _ := serverTLS(object.Spec.Configuration.TLSConfiguration)
	return Reading{Cluster: cluster, TLS: secured, Warnings: warnings, Source: source, object: object}, nil
}

// FrontendProfiles returns the FrontendProfiles of a cluster. It returns none if the cluster does not serve the kind.
func FrontendProfiles(ctx context.Context, reader client.Reader) ([]v1alpha1.FrontendProfile, error) {
	var list v1alpha1.FrontendProfileList
	if err := reader.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return list.Items, nil
}

// Parse reads a configuration from YAML or JSON: a KubeVirt object, or the value of its spec.configuration, with or without the key 'configuration'. Unknown
// fields are errors. The warnings name the fields that have no effect.
func Parse(data []byte) (config.Cluster, []string, error) {
	object, err := decodeKubeVirt(data)
	if err != nil {
		return config.Cluster{}, nil, err
	}
	return fromObject(object)
}

func decodeKubeVirt(data []byte) (*v1.KubeVirt, error) {
	var kind struct {
		Kind          string `json:"kind"`
		Configuration any    `json:"configuration"`
	}
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return nil, err
	}
	var object v1.KubeVirt
	var err error
	switch {
	case kind.Kind == "KubeVirt":
		err = yaml.UnmarshalStrict(data, &object)
	case kind.Kind != "":
		return nil, fmt.Errorf("kind must be 'KubeVirt', not '%s': give a KubeVirt object or its spec.configuration", kind.Kind)
	case kind.Configuration != nil:
		err = yaml.UnmarshalStrict(data, &object.Spec)
	default:
		err = yaml.UnmarshalStrict(data, &object.Spec.Configuration)
	}
	return &object, err
}

// fromObject returns the configuration of a KubeVirt object as the newest KubeVirt reads it. Its error names every wrong field, and is the same for each
// version.
func fromObject(object *v1.KubeVirt) (config.Cluster, []string, error) {
	if _, errs := config.FromKubeVirt(object.Spec.Configuration); len(errs) > 0 {
		return config.Cluster{}, nil, errs.ToAggregate()
	}
	version, warnings := versionOf(object)
	_, ineffective := serverTLS(object.Spec.Configuration.TLSConfiguration)
	return clusterOf(object, config.Newest), slices.Concat(warnings, version.Warnings(object.Spec.Configuration), ineffective), nil
}
