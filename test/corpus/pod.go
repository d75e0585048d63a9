package corpus

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// podSettings are the settings of the cluster that makes the pods of all cases: passt, a storage class for state, and no feature gate.
var podSettings = pod.Settings{Image: "launcher", Network: pod.Passt, StateClass: "standard"}

// podInput is an explicit VMI in that cluster, where all its claims and networks exist. Claims of volumes of type persistentVolumeClaim are block devices,
// others have a file system.
func podInput(explicit *v1.VirtualMachineInstance) pod.Input {
	vmi := explicit.DeepCopy()
	vmi.UID = uid
	claims, networks := map[string]pod.Claim{}, map[string]string{}
	for _, network := range vmi.Spec.Networks {
		if network.Multus != nil {
			networks[network.Multus.NetworkName] = ""
		}
	}
	for _, volume := range vmi.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			claims[volume.PersistentVolumeClaim.ClaimName] = pod.Claim{Block: true}
		case volume.DataVolume != nil:
			claims[volume.DataVolume.Name] = pod.Claim{}
		case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
			claims[volume.Ephemeral.PersistentVolumeClaim.ClaimName] = pod.Claim{}
		}
	}
	return pod.Input{VMI: vmi, Claims: claims, NetworkResources: networks, Settings: podSettings}
}

// Pod makes the pod of an explicit VMI.
func Pod(explicit *v1.VirtualMachineInstance) (pod.Result, field.ErrorList) {
	return pod.New(podInput(explicit))
}

// commonPod is the pod of a VMI of that name that sets nothing but 1 GiB of memory. It has an interface on the pod network.
func commonPod(name string) (map[string]any, error) {
	vmi, memory := &v1.VirtualMachineInstance{}, resource.MustParse("1Gi")
	vmi.Namespace, vmi.Name = namespace, name
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		return nil, verdict.Errors.ToAggregate()
	}
	result, errs := Pod(explicit)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return generalPod(result)
}

func generalPod(result pod.Result) (object map[string]any, err error) {
	raw, err := json.Marshal(result.Pod)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(raw, &object)
}

// podText is what a pod has beyond the common one, as YAML. What it lacks is in the YAML as null.
func podText(result pod.Result) (string, error) {
	common, err := commonPod(result.Pod.Labels[v1.VirtualMachineInstanceIDLabel])
	if err != nil {
		return "", err
	}
	object, err := generalPod(result)
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(differenceTo(common, object))
	return string(text), err
}

// differenceTo returns what of a value differs from a common one. Elements of lists are found by their names; those that are the same are left out.
func differenceTo(common, value any) any {
	switch value := value.(type) {
	case map[string]any:
		was, ok := common.(map[string]any)
		if !ok {
			return value
		}
		differs := map[string]any{}
		for key := range was {
			if _, has := value[key]; !has {
				differs[key] = nil
			}
		}
		for key, part := range value {
			if before, had := was[key]; !had {
				differs[key] = part
			} else if !reflect.DeepEqual(before, part) {
				differs[key] = differenceTo(before, part)
			}
		}
		return differs
	case []any:
		was, _ := common.([]any)
		var differs []any
		for _, element := range value {
			if slices.ContainsFunc(was, func(w any) bool { return reflect.DeepEqual(w, element) }) {
				continue
			}
			before := slices.IndexFunc(was, func(w any) bool { return nameOf(w) != nil && nameOf(w) == nameOf(element) })
			if before < 0 {
				differs = append(differs, element)
				continue
			}
			part, ok := differenceTo(was[before], element).(map[string]any)
			if ok {
				part["name"] = nameOf(element)
			}
			differs = append(differs, part)
		}
		return differs
	}
	return value
}

// nameOf returns the name of an element of a list.
func nameOf(element any) any {
	object, _ := element.(map[string]any)
	return object["name"]
}
