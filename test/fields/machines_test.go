package fields

import (
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// refusedOnMachines are specs of which a launcher on a bare machine refuses one field each. A disk of a volume that is refused is refused with it.
var refusedOnMachines = map[string]string{
	"volumes: [{name: a, configMap: {name: a}}]":                                                               "spec.volumes[0]",
	"volumes: [{name: a, secret: {secretName: a}}]":                                                            "spec.volumes[0]",
	"volumes: [{name: a, ephemeral: {persistentVolumeClaim: {claimName: a}}}]":                                 "spec.volumes[0]",
	"volumes: [{name: a, cloudInitConfigDrive: {userData: x}}]":                                                "spec.volumes[0]",
	"volumes: [{name: a, cloudInitNoCloud: {secretRef: {name: a}}}]":                                           "spec.volumes[0]",
	"domain: {devices: {interfaces: [{name: a, sriov: {}}]}}\nnetworks: [{name: a, multus: {networkName: a}}]": "spec.domain.devices.interfaces[0]",
	"domain: {devices: {interfaces: [{name: a, passtBinding: {}}]}}\nnetworks: [{name: a, pod: {}}]":           "spec.domain.devices.interfaces[0]",
	"domain: {devices: {gpus: [{name: a, deviceName: example.com/card}]}}":                                     "spec.domain.devices.gpus[0]",
	"domain: {devices: {hostDevices: [{name: a, deviceName: example.com/card}]}}":                              "spec.domain.devices.hostDevices[0]",
}

// TestMachinesRefuse: if guests run on bare machines, admission refuses the same fields as a launcher with all flags, and no other fields.
func TestMachinesRefuse(t *testing.T) {
	cluster := config.Default()
	cluster.Limits.Gates = config.AllGates()
	samples := withRefused(t, guests(t))
	launcher := onMachine(imagesOf(samples))
	for text, at := range refusedOnMachines {
		vmi := v1.VirtualMachineInstance{}
		vmi.Name, vmi.Namespace, vmi.UID = "a", "default", "1d9c2f0e-0000-4000-8000-000000000001"
		text = strings.Replace("domain: {devices: {}}\n"+text, "domain: {devices: {}}\ndomain: ", "domain: ", 1)
		if err := yaml.UnmarshalStrict([]byte(text), &vmi.Spec); err != nil {
			t.Fatal(err)
		}
		memory := resource.MustParse("64Mi")
		vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
		if len(vmi.Spec.Volumes) > 0 {
			vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "a"}}
		}
		admitted := admittedOnly(&vmi, cluster)
		if len(admitted.refused) > 0 {
			t.Errorf("%s: no longer admitted: %v", text, admitted.refused)
			continue
		}
		atCreate, done := pathsOfErrors(baremachine.RefusedFields(admitted.explicit)), pathsOfErrors(launcher.runStages(admitted.explicit, cluster).refused)
		if atCreate != at || done != at {
			t.Errorf("%s: admission refuses '%s', the launcher '%s', want '%s'", text, atCreate, done, at)
		}
	}
	refused, served := 0, 0
	for _, sample := range samples {
		admitted := admittedOnly(sample.VMI.DeepCopy(), cluster)
		if len(admitted.refused) > 0 {
			continue
		}
		atCreate, done := baremachine.RefusedFields(admitted.explicit), launcher.runStages(admitted.explicit, cluster).refused
		if len(atCreate) > 0 {
			refused++
		} else {
			served++
		}
		// A launcher that cannot bind does not render, and does not say what rendering would refuse.
		all := strings.Split(pathsOfErrors(atCreate), " ")
		if (len(atCreate) > 0) != (len(done) > 0) || slices.ContainsFunc(done, func(err *field.Error) bool { return !slices.Contains(all, err.Field) }) {
			t.Errorf("%s: admission refuses %v, the launcher %v", sample.Name, atCreate, done)
		}
	}
	if refused == 0 || served == 0 {
		t.Errorf("%d samples are refused, and %d served", refused, served)
	}
}

// pathsOfErrors returns the fields of errors, each once.
func pathsOfErrors(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		if !slices.Contains(all, err.Field) {
			all = append(all, err.Field)
		}
	}
	return strings.Join(all, " ")
}
