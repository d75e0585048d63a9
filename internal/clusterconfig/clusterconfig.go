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
	config.Cluster
	// Warnings name the fields that have no effect.
	Warnings []string
	// Source is the file or the object. It is empty if nobody configured anything: then the configuration is KubeVirt's defaults.
	Source string
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
		cluster, warnings, err := Parse(data)
		if err != nil {
			return Reading{}, fmt.Errorf("%s: %w", file, err)
		}
		return Reading{cluster, warnings, file}, nil
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
	source := fmt.Sprintf("KubeVirt %s/%s", first.Namespace, first.Name)
	cluster, warnings, err := fromObject(&first)
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", source, err)
	}
	return Reading{cluster, warnings, source}, nil
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
	var kind struct {
		Kind          string `json:"kind"`
		Configuration any    `json:"configuration"`
	}
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return config.Cluster{}, nil, err
	}
	var object v1.KubeVirt
	var err error
	switch {
	case kind.Kind == "KubeVirt":
		err = yaml.UnmarshalStrict(data, &object)
	case kind.Kind != "":
		return config.Cluster{}, nil, fmt.Errorf("kind must be 'KubeVirt', not '%s': give a KubeVirt object or its spec.configuration", kind.Kind)
	case kind.Configuration != nil:
		err = yaml.UnmarshalStrict(data, &object.Spec)
	default:
		err = yaml.UnmarshalStrict(data, &object.Spec.Configuration)
	}
	if err != nil {
		return config.Cluster{}, nil, err
	}
	return fromObject(&object)
}

// fromObject returns the configuration of a KubeVirt object. Its error names every wrong field.
func fromObject(object *v1.KubeVirt) (config.Cluster, []string, error) {
	cluster, errs := config.FromKubeVirt(object.Spec.Configuration)
	if len(errs) > 0 {
		return config.Cluster{}, nil, errs.ToAggregate()
	}
	_, even := object.Annotations[evenThreads]
	cluster.Defaults.EvenEmulatorThreads = even && cluster.Limits.Gates["AlignCPUs"]
	return cluster, config.Warnings(object.Spec.Configuration), nil
}
