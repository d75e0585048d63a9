package resolve

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// evenThreads is KubeVirt's annotation of the KubeVirt object, see config.Defaults.EvenEmulatorThreads.
const evenThreads = v1.EmulatorThreadCompleteToEvenParity

// Config reads the configuration of a cluster from YAML or JSON: a KubeVirt object, or what stands in its
// spec.configuration, with or without the key 'configuration'. Fields that do not exist are errors. The warnings name
// what has no effect.
func Config(data []byte) (config.Cluster, []string, error) {
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
		return config.Cluster{}, nil, fmt.Errorf("kind is '%s': give a KubeVirt object or its spec.configuration", kind.Kind)
	case kind.Configuration != nil:
		err = yaml.UnmarshalStrict(data, &object.Spec)
	default:
		err = yaml.UnmarshalStrict(data, &object.Spec.Configuration)
	}
	if err != nil {
		return config.Cluster{}, nil, err
	}
	return configured(&object)
}

// configured is what a KubeVirt object means. Its error names every wrong field.
func configured(object *v1.KubeVirt) (config.Cluster, []string, error) {
	cluster, errs := config.FromKubeVirt(object.Spec.Configuration)
	if len(errs) > 0 {
		return config.Cluster{}, nil, errs.ToAggregate()
	}
	_, even := object.Annotations[evenThreads]
	cluster.Defaults.EvenEmulatorThreads = even && cluster.Limits.Gates["AlignCPUs"]
	return cluster, config.Warnings(object.Spec.Configuration), nil
}
