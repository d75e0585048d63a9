//go:build kubevirt

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	networkv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admission/v1"
	k8sv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubecli"
	networks "kubevirt.io/client-go/networkattachmentdefinitionclient"
	fakenetworks "kubevirt.io/client-go/networkattachmentdefinitionclient/fake"
	"kubevirt.io/kubevirt/pkg/hooks"
	netadmitter "kubevirt.io/kubevirt/pkg/network/admitter"
	"kubevirt.io/kubevirt/pkg/network/netbinding"
	netannotations "kubevirt.io/kubevirt/pkg/network/pod/annotations"
	netresources "kubevirt.io/kubevirt/pkg/network/resources"
	storageannotations "kubevirt.io/kubevirt/pkg/storage/pod/annotations"
	"kubevirt.io/kubevirt/pkg/testutils"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks/mutating-webhook/mutators"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks/validating-webhook/admitters"
	virtconfig "kubevirt.io/kubevirt/pkg/virt-config"
	"kubevirt.io/kubevirt/pkg/virt-config/featuregate"
	"kubevirt.io/kubevirt/pkg/virt-controller/services"
)

// cluster is one that has all that a VMI names: claims, networks, bindings and devices of nodes.
type cluster struct {
	config   *virtconfig.ClusterConfig
	claims   cache.Store
	networks *fakenetworks.Clientset
}

// ofHosts are gates behind which the converter looks into /sys of the node that has the devices.
var ofHosts = []string{featuregate.PCINUMAAwareTopologyEnabled, featuregate.GraceIOVirtualization, featuregate.IOMMUFDGate}

func newCluster(vmi *v1.VirtualMachineInstance) *cluster {
	config := &v1.KubeVirtConfiguration{
		DeveloperConfiguration: &v1.DeveloperConfiguration{},
		NetworkConfiguration:   &v1.NetworkConfiguration{Binding: map[string]v1.InterfaceBindingPlugin{}},
		PermittedHostDevices:   &v1.PermittedHostDevices{},
	}
	for name, gate := range featuregate.GetRegisteredFeatureGates() {
		if gate.State != featuregate.Discontinued && !slices.Contains(ofHosts, name) {
			config.DeveloperConfiguration.FeatureGates = append(config.DeveloperConfiguration.FeatureGates, name)
		}
	}
	slices.Sort(config.DeveloperConfiguration.FeatureGates)
	permit := config.PermittedHostDevices
	devices := vmi.Spec.Domain.Devices
	for _, d := range devices.HostDevices { // devices of claims have an empty name, which permits nothing
		permit.PciHostDevices = append(permit.PciHostDevices, v1.PciHostDevice{PCIVendorSelector: "0000:0000", ResourceName: d.DeviceName})
	}
	for _, d := range devices.GPUs {
		permit.MediatedDevices = append(permit.MediatedDevices, v1.MediatedHostDevice{MDEVNameSelector: "gpu", ResourceName: d.DeviceName})
	}
	for _, nic := range devices.Interfaces {
		if nic.Binding != nil {
			config.NetworkConfiguration.Binding[nic.Binding.Name] = v1.InterfaceBindingPlugin{
				DomainAttachmentType: v1.Tap, SidecarImage: "binding/" + nic.Binding.Name,
			}
		}
	}
	c := &cluster{claims: cache.NewStore(cache.MetaNamespaceKeyFunc), networks: fakenetworks.NewSimpleClientset()}
	c.config, _, _ = testutils.NewFakeClusterConfigUsingKVConfig(config)
	for _, volume := range vmi.Spec.Volumes {
		if name := claimOf(volume); name != "" {
			c.addClaim(vmi.Namespace, name, nil)
		}
	}
	c.addClaim(vmi.Namespace, "persistent-state-for-"+vmi.Name, map[string]string{"persistent-state-for": vmi.Name})
	for _, network := range vmi.Spec.Networks {
		if network.Multus != nil {
			c.addNetwork(vmi.Namespace, network.Multus.NetworkName)
		}
	}
	return c
}

// claimOf is the claim of a volume.
func claimOf(volume v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
		return volume.Ephemeral.PersistentVolumeClaim.ClaimName
	case volume.MemoryDump != nil:
		return volume.MemoryDump.ClaimName
	}
	return ""
}

func (c *cluster) addClaim(namespace, name string, labels map[string]string) {
	mode := k8sv1.PersistentVolumeFilesystem
	must(c.claims.Add(&k8sv1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       k8sv1.PersistentVolumeClaimSpec{VolumeMode: &mode, AccessModes: []k8sv1.PersistentVolumeAccessMode{k8sv1.ReadWriteMany}},
	}))
}

// addNetwork adds a definition. It names the resource, because the fake clientset would guess another one for the kind.
func (c *cluster) addNetwork(namespace, name string) {
	resource := schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
	definition := &networkv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Annotations: map[string]string{"k8s.v1.cni.cncf.io/resourceName": "example.com/" + name}}}
	if _, err := c.networks.Tracker().Get(resource, namespace, name); err != nil {
		must(c.networks.Tracker().Create(resource, definition, namespace))
	}
}

// admitVMI mutates a VMI, and has it judged.
func (c *cluster) admitVMI(vmi *v1.VirtualMachineInstance) (a Answer) {
	identified := vmi.Spec.Domain.Firmware != nil && vmi.Spec.Domain.Firmware.UUID != ""
	if err := mutators.ApplyNewVMIMutations(vmi, c.config); err != nil {
		a.Refused = []Reason{{Message: err.Error()}}
		return a
	}
	if !identified && vmi.Spec.Domain.Firmware != nil { // the mutator's is a random one, which would differ from answer to answer
		vmi.Spec.Domain.Firmware.UUID = "1d0c0b5e-0b5a-4f0e-8f2a-6f1f7c9f3a11"
	}
	a.Spec = vmi.Spec.DeepCopy()
	vmi.TypeMeta = metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachineInstance"}
	raw, err := json.Marshal(vmi)
	must(err)
	resource := webhooks.VirtualMachineInstanceGroupVersionResource
	admitter := admitters.VMICreateAdmitter{ClusterConfig: c.config, SpecValidators: []admitters.SpecValidator{
		func(at *field.Path, spec *v1.VirtualMachineInstanceSpec, config *virtconfig.ClusterConfig) []metav1.StatusCause {
			return netadmitter.Validate(at, spec, config)
		}}}
	response := admitter.Admit(context.Background(), &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: vmi.Namespace, Resource: resource, Object: runtime.RawExtension{Raw: raw},
	}})
	if response.Allowed {
		return a
	}
	if response.Result.Details != nil {
		for _, cause := range response.Result.Details.Causes {
			a.Refused = append(a.Refused, Reason{cause.Field, cause.Message})
		}
	}
	if len(a.Refused) == 0 {
		a.Refused = []Reason{{Message: response.Result.Message}}
	}
	return a
}

// client has what virt-controller asks for when it makes a pod.
type client struct {
	kubecli.KubevirtClient
	networks networks.Interface
}

func (c client) NetworkClient() networks.Interface { return c.networks }

// jitter is the only part of a pod that KubeVirt draws at random.
var jitter = regexp.MustCompile(`"--qemu-timeout","\d+s"`)

// launcherPod returns virt-launcher's pod.
func (c *cluster) launcherPod(vmi *v1.VirtualMachineInstance) ([]byte, error) {
	service := services.NewTemplateService("launcher", 240, "/var/run/kubevirt", "/var/run/kubevirt-ephemeral-disks", "/var/run/kubevirt/container-disks",
		v1.HotplugDiskDir, "", c.claims, client{networks: c.networks}, c.config, 107, "exporter", cache.NewStore(cache.MetaNamespaceKeyFunc),
		cache.NewStore(cache.MetaNamespaceKeyFunc),
		services.WithSidecarCreator(func(vmi *v1.VirtualMachineInstance, _ *v1.KubeVirtConfiguration) (hooks.HookSidecarList, error) {
			return hooks.UnmarshalHookSidecarList(vmi)
		}),
		services.WithSidecarCreator(netbinding.NetBindingPluginSidecarList),
		services.WithNetMemoryCalculator(netresources.MemoryCalculator{}),
		services.WithAnnotationsGenerators(netannotations.NewGenerator(c.config), storageannotations.Generator{}),
	)
	pod, err := service.RenderLaunchManifest(vmi)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(pod)
	return jitter.ReplaceAll(raw, []byte(`"--qemu-timeout","240s"`)), err
}

func must(err error) {
	if err != nil {
		panic(fmt.Errorf("the cluster of a VMI cannot be made: %w", err))
	}
}
