package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
)

// everything is a VM that refers to each kind of object.
const everything = `
metadata: {name: demo, namespace: team, annotations: {kilnvm.io/pins: '{"instancetype":"i-1"}'}}
spec:
  preference: {name: linux, revisionName: p-1}
  template:
    spec:
      domain:
        firmware: {kernelBoot: {container: {image: k, imagePullSecret: kernel}}}
        devices:
          disks: [{name: a}, {name: b}, {name: keys}]
          filesystems: [{name: share, virtiofs: {}}]
          interfaces: [{name: default, masquerade: {}}, {name: lan, bridge: {}}, {name: far, bridge: {}}, {name: vf, sriov: {}}]
          gpus: [{name: g, deviceName: example.com/gpu}, {name: claimed, claimName: dra}]
          hostDevices: [{name: h, deviceName: example.com/nic}]
      resourceClaims: [{name: dra, resourceClaimTemplateName: gpus}]
      accessCredentials:
      - {sshPublicKey: {source: {secret: {secretName: key}}, propagationMethod: {noCloud: {}}}}
      - {userPassword: {source: {secret: {secretName: password}}, propagationMethod: {qemuGuestAgent: {}}}}
      networks:
      - {name: default, pod: {}}
      - {name: lan, multus: {networkName: lan}}
      - {name: far, multus: {networkName: other/far}}
      - {name: vf, resourceClaim: {claimName: dra}}
      volumes:
      - {name: a, persistentVolumeClaim: {claimName: a}}
      - {name: b, dataVolume: {name: b}}
      - {name: c, ephemeral: {persistentVolumeClaim: {claimName: c}}}
      - {name: d, containerDisk: {image: d, imagePullSecret: pull}}
      - {name: keys, secret: {secretName: keys}}
      - {name: maybe, secret: {secretName: maybe, optional: true}}
      - {name: share, configMap: {name: share}}
      - {name: maps, configMap: {name: maps, optional: true}}
      - {name: account, serviceAccount: {serviceAccountName: robot}}
      - {name: prep, sysprep: {configMap: {name: prep}}}
      - {name: prep2, sysprep: {secret: {name: prep2}}}
      - {name: seed, cloudInitNoCloud: {secretRef: {name: user}, networkDataSecretRef: {name: net}}}
      - {name: drive, cloudInitConfigDrive: {secretRef: {name: user2}}}
      - {name: empty, emptyDisk: {capacity: 1Mi}}
`

// listed are needs as text.
func listed(all []Need) (texts []string) {
	for _, n := range all {
		texts = append(texts, fmt.Sprintf("%s %s/%s %s %s.%s", n.Kind, n.Namespace, n.Name, n.Path, n.Device.List, n.Device.Name))
	}
	return texts
}

// TestNeeds: each reference is found once, with a path that the VM has. Optional objects are not needed.
func TestNeeds(t *testing.T) {
	t.Parallel()
	const at = " spec.template.spec."
	want := []string{
		"ControllerRevision team/p-1 spec.preference.revisionName .",
		"ControllerRevision team/i-1 metadata.annotations[kilnvm.io/pins].instancetype .",
		"NetworkAttachmentDefinition team/lan" + at + "networks[1].multus.networkName networks.lan",
		"NetworkAttachmentDefinition other/far" + at + "networks[2].multus.networkName networks.far",
		"PersistentVolumeClaim team/a" + at + "volumes[0].persistentVolumeClaim.claimName volumes.a",
		"PersistentVolumeClaim team/b" + at + "volumes[1].dataVolume.name volumes.b",
		"PersistentVolumeClaim team/c" + at + "volumes[2].ephemeral.persistentVolumeClaim.claimName volumes.c",
		"Secret team/pull" + at + "volumes[3].containerDisk.imagePullSecret volumes.d",
		"Secret team/keys" + at + "volumes[4].secret.secretName volumes.keys",
		"ConfigMap team/share" + at + "volumes[6].configMap.name volumes.share",
		"ServiceAccount team/robot" + at + "volumes[8].serviceAccount.serviceAccountName volumes.account",
		"ConfigMap team/prep" + at + "volumes[9].sysprep.configMap.name volumes.prep",
		"Secret team/prep2" + at + "volumes[10].sysprep.secret.name volumes.prep2",
		"Secret team/user" + at + "volumes[11].cloudInitNoCloud.secretRef.name volumes.seed",
		"Secret team/net" + at + "volumes[11].cloudInitNoCloud.networkDataSecretRef.name volumes.seed",
		"Secret team/user2" + at + "volumes[12].cloudInitConfigDrive.secretRef.name volumes.drive",
		"resource /example.com/gpu" + at + "domain.devices.gpus[0].deviceName gpus.g",
		"resource /example.com/nic" + at + "domain.devices.hostDevices[0].deviceName hostDevices.h",
		"ResourceClaimTemplate team/gpus" + at + "resourceClaims[0].resourceClaimTemplateName resourceClaims.dra",
		"Secret team/kernel" + at + "domain.firmware.kernelBoot.container.imagePullSecret .",
		"Secret team/key" + at + "accessCredentials[0].sshPublicKey.source.secret.secretName accessCredentials.0",
		"Secret team/password" + at + "accessCredentials[1].userPassword.source.secret.secretName accessCredentials.1",
	}
	if diff := cmp.Diff(want, listed(Needs(vmOf(t, everything)))); diff != "" {
		t.Error(diff)
	}
}

// TestCauses: what is not known to be there is gone; each cause has its path and what to do.
func TestCauses(t *testing.T) {
	t.Parallel()
	vm := vmOf(t, everything)
	known := Facts{}
	for _, need := range Needs(vm) {
		known[need.Object] = Present
	}
	if causes := Causes(Needs(vm), known); len(causes) > 0 {
		t.Errorf("all is there: %v", causes)
	}
	if causes := Causes(Needs(vm), nil); len(causes) != len(Needs(vm)) {
		t.Errorf("nothing is known: %d causes", len(causes))
	}
	for _, c := range []struct {
		of   Object
		fact Fact
		want string
	}{
		{Object{Network, "team", "lan"}, Gone, `spec.template.spec.networks[1].multus.networkName: Not found: "team/lan": create this NetworkAttachmentDefinition ` +
			`again, or restore without network 'lan': set annotation 'kilnvm.io/leave-out-unavailable: "true"' on a new restore`},
		{Object{Network, "other", "far"}, Denied, `spec.template.spec.networks[2].multus.networkName: Forbidden: NetworkAttachmentDefinition 'other/far' may not ` +
			`be used by the account that created the restore: ask its owner for the right to get it, or restore without network 'far': set annotation ` +
			`'kilnvm.io/leave-out-unavailable: "true"' on a new restore`},
		{Object{Kind: Resource, Name: "example.com/gpu"}, Forbidden, `spec.template.spec.domain.devices.gpus[0].deviceName: Forbidden: resource 'example.com/gpu' ` +
			`is not permitted by the configuration of the cluster: ask its administrator, or restore without GPU 'g': set annotation ` +
			`'kilnvm.io/leave-out-unavailable: "true"' on a new restore`},
		{Object{Revision, "team", "i-1"}, Gone, `metadata.annotations[kilnvm.io/pins].instancetype: Not found: "i-1": restore this ControllerRevision from a ` +
			`backup: without it the VM would be another one`},
	} {
		was := known[c.of]
		known[c.of] = c.fact
		causes := Causes(Needs(vm), known)
		if len(causes) != 1 || causes[0].Error().Error() != c.want {
			t.Errorf("%v: %d causes\n%s\nwant\n%s", c.of, len(causes), causes[0].Error(), c.want)
		}
		known[c.of] = was
	}
}

// TestLeaveOut: a device goes with all that is its own; what the VM cannot do without remains a cause.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	vm := vmOf(t, everything)
	left, remaining := LeaveOut(vm, Causes(Needs(vm), nil))
	if len(remaining) != 3 || remaining[2].Name != "kernel" {
		t.Errorf("remaining: %v", remaining)
	}
	spec := vm.Spec.Template.Spec
	devices := spec.Domain.Devices
	names := func(of []v1.Volume) (all []string) {
		for _, v := range of {
			all = append(all, v.Name)
		}
		return all
	}
	if got := names(spec.Volumes); !slices.Equal(got, []string{"maybe", "maps", "empty"}) || len(devices.Disks)+len(devices.Filesystems) > 0 {
		t.Errorf("volumes %v, disks %v, filesystems %v", got, devices.Disks, devices.Filesystems)
	}
	if len(spec.Networks) != 1 || len(devices.Interfaces) != 1 || devices.AutoattachPodInterface != nil {
		t.Errorf("networks %v, interfaces %v", spec.Networks, devices.Interfaces)
	}
	if len(devices.GPUs)+len(devices.HostDevices)+len(spec.ResourceClaims)+len(spec.AccessCredentials) > 0 {
		t.Errorf("left: %+v %+v", devices, spec)
	}
	if text := Report(left); !strings.HasPrefix(text, "restored without network 'lan', network 'far', volume 'a'") || Report(nil) != "" {
		t.Error(text)
	}
	last := vmOf(t, everything)
	last.Spec.Template.Spec.Networks = last.Spec.Template.Spec.Networks[1:2]
	LeaveOut(last, Causes(Needs(last), nil))
	if auto := last.Spec.Template.Spec.Domain.Devices.AutoattachPodInterface; auto == nil || *auto {
		t.Error("a VM that loses its last network gets one of the pod instead")
	}
}
