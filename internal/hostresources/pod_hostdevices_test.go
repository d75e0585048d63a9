package hostresources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
)

// given is a pod with the variables of device plugins and with files.
func given(t *testing.T, variables, files map[string]string) *Pod {
	t.Helper()
	p := mounted(t, files)
	p.Getenv = func(name string) string { return variables[name] }
	return p
}

// TestPodHostDevices: each device of the VMI is one that a plugin gave, and none is given twice.
func TestPodHostDevices(t *testing.T) {
	const card, mdev, device = "/sys/devices/pci0000:81/0000:81:00.0", "b1b71d75-bb21-4c0e-a24b-1f1d2c3d4e5f", "/sys/bus/mdev/devices/"
	node := 1
	for _, c := range []struct {
		why              string
		resources        []string
		variables, files map[string]string
		want             []backend.HostDev
		refused          string
	}{
		{"two PCI devices of a resource", []string{"ex.ample/a-card", "ex.ample/a-card"},
			map[string]string{"PCI_RESOURCE_EX_AMPLE_A-CARD": "0000:81:00.0,0000:82:00.0"},
			map[string]string{"/sys/bus/pci/devices/0000:81:00.0/numa_node": "1\n", "/sys/bus/pci/devices/0000:82:00.0/numa_node": "-1\n"},
			[]backend.HostDev{{Type: "pci", Address: "0000:81:00.0", NUMANode: &node}, {Type: "pci", Address: "0000:82:00.0"}}, ""},
		{"two resources that share devices", []string{"x/a", "x/b"},
			map[string]string{"PCI_RESOURCE_X_A": "0000:81:00.0", "PCI_RESOURCE_X_B": "0000:81:00.0,0000:82:00.0,"},
			nil, []backend.HostDev{{Type: "pci", Address: "0000:81:00.0"}, {Type: "pci", Address: "0000:82:00.0"}}, ""},
		{"a mediated device", []string{"x/v"}, map[string]string{"MDEV_PCI_RESOURCE_X_V": strings.ToUpper(mdev)},
			map[string]string{card + "/numa_node": "1", card + "/" + mdev + "/.keep": "", device + mdev + "->": "../../../devices/pci0000:81/0000:81:00.0/" + mdev},
			[]backend.HostDev{{Type: "mdev", Address: mdev, NUMANode: &node}}, ""},
		{"a crypto matrix", []string{"x/v"}, map[string]string{"MDEV_PCI_RESOURCE_X_V": mdev},
			map[string]string{device + mdev + "/mdev_type/device_api": "vfio-ap\n"}, []backend.HostDev{{Type: "ap", Address: mdev}}, ""},
		{"a USB device", []string{"x/u"}, map[string]string{"USB_RESOURCE_X_U": "1:4"}, nil, []backend.HostDev{{Type: "usb", Address: "1.4"}}, ""},
		{"a bundle of USB devices", []string{"x/u"}, map[string]string{"USB_RESOURCE_X_U": "1:4,1:5,3:2"}, nil,
			[]backend.HostDev{{Type: "usb", Address: "1.4", Bundle: []string{"1.5", "3.2"}}}, ""},
		{"two bundles of one resource, and a device of another", []string{"x/u", "x/one", "x/u"},
			map[string]string{"USB_RESOURCE_X_U": "1:4,1:5,3:2,3:3", "USB_RESOURCE_X_ONE": "1:9"}, nil,
			[]backend.HostDev{{Type: "usb", Address: "1.4", Bundle: []string{"1.5"}}, {Type: "usb", Address: "1.9"},
				{Type: "usb", Address: "3.2", Bundle: []string{"3.3"}}}, ""},
		{"a bundle with repeated and empty parts", []string{"x/u"}, map[string]string{"USB_RESOURCE_X_U": ",1:4,1:4,,1:5,"}, nil,
			[]backend.HostDev{{Type: "usb", Address: "1.4", Bundle: []string{"1.5"}}}, ""},
		{"bundles of unequal size", []string{"x/u", "x/u"}, map[string]string{"USB_RESOURCE_X_U": "1:4,1:5,3:2"}, nil, nil,
			"gave this pod 3 USB devices for 2 devices of the virtual machine instance"},
		{"a bundle of more than a guest may have", []string{"x/u"},
			map[string]string{"USB_RESOURCE_X_U": "1:1,1:2,1:3,1:4,1:5,1:6,1:7,1:8,1:9,1:10,1:11,1:12,1:13,1:14,1:15,1:16,1:17"}, nil, nil,
			"gave this pod 17 USB devices for one device of the virtual machine instance, which may have 16"},
		{"a bundle with an invalid device", []string{"x/u"}, map[string]string{"USB_RESOURCE_X_U": "1:4,1"}, nil, nil,
			"the device plugin of 'x/u' gave this pod '1', which must be a USB bus and device"},
		{"no bus has number 0", []string{"x/u"}, map[string]string{"USB_RESOURCE_X_U": "0:4"}, nil, nil, "such as '1:4'"},
		{"no bus has so many devices", []string{"x/u"}, map[string]string{"USB_RESOURCE_X_U": "1:128"}, nil, nil, "such as '1:4'"},
		{"the other functions of a card's IOMMU group", []string{"x/a"}, map[string]string{"PCI_RESOURCE_X_A": "0000:81:00.0,0000:81:00.1"}, nil,
			[]backend.HostDev{{Type: "pci", Address: "0000:81:00.0"}}, ""},
		{"PCI devices of other PCI domains", []string{"x/a", "x/a"}, map[string]string{"PCI_RESOURCE_X_A": "0009:01:00.0,10000:E1:00.0"},
			map[string]string{"/sys/bus/pci/devices/0009:01:00.0/numa_node": "1\n", "/sys/bus/pci/devices/10000:e1:00.0/numa_node": "1\n"},
			[]backend.HostDev{{Type: "pci", Address: "0009:01:00.0", NUMANode: &node}, {Type: "pci", Address: "10000:e1:00.0", NUMANode: &node}}, ""},
		{"one device under two spellings", []string{"x/a", "x/b"}, map[string]string{"PCI_RESOURCE_X_A": "0000:8a:00.0", "PCI_RESOURCE_X_B": "8A:00.0"}, nil, nil,
			"the device plugin of 'x/b' gave this pod 1, which other devices"},
		{"more than were given", []string{"x/u", "x/u"}, map[string]string{"USB_RESOURCE_X_U": "1:4"}, nil, nil,
			"gave this pod 1 USB devices for 2 devices of the virtual machine instance"},
		{"more PCI devices than were given", []string{"x/a", "x/a"}, map[string]string{"PCI_RESOURCE_X_A": "0000:81:00.0"}, nil, nil,
			"hostDevices[1]: Invalid value: \"device-1\": the device plugin of 'x/a' gave this pod 1, which other devices"},
		{"a virtual function that no network has", []string{"x/vf"}, map[string]string{"PCIDEVICE_X_VF": "0000:81:02.3"}, nil, nil,
			"the device plugin of 'x/vf' gave this pod no device"},
		{"none was given", []string{"x/u"}, nil, nil, nil, "the device plugin of 'x/u' gave this pod no device"},
		{"no PCI address", []string{"x/a"}, map[string]string{"PCI_RESOURCE_X_A": "../../../etc"}, nil, nil,
			"the device plugin of 'x/a' gave this pod '../../../etc', which must be a PCI address"},
		{"a PCI domain of more digits than the kernel has", []string{"x/a"}, map[string]string{"PCI_RESOURCE_X_A": "100000000:01:00.0"}, nil, nil,
			"gave this pod '100000000:01:00.0'"},
		{"a PCI domain that leads elsewhere", []string{"x/a"}, map[string]string{"PCI_RESOURCE_X_A": "0000/../0:01:00.0"}, nil, nil, "must be a PCI address"},
		{"no UUID", []string{"x/a"}, map[string]string{"MDEV_PCI_RESOURCE_X_A": "../" + mdev}, nil, nil, "must be the UUID"},
		{"no USB address", []string{"x/a"}, map[string]string{"USB_RESOURCE_X_A": "1:4x"}, nil, nil, "such as '1:4'"},
	} {
		vmi, want := &v1.VirtualMachineInstance{}, map[string]backend.HostDev(nil)
		for i, resource := range c.resources {
			name := "device-" + string(rune('0'+i))
			vmi.Spec.Domain.Devices.HostDevices = append(vmi.Spec.Domain.Devices.HostDevices, v1.HostDevice{Name: name, DeviceName: resource})
			if c.refused == "" {
				if want == nil {
					want = map[string]backend.HostDev{}
				}
				want[name] = c.want[i]
			}
		}
		found, errs := given(t, c.variables, c.files).hostDevices(vmi)
		if refused(t, c.why, c.refused, errs.ToAggregate()); c.refused != "" {
			continue
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s (-want +found):\n%s", c.why, diff)
		}
	}
}

// TestPodVirtualFunctions: an interface with sriov gets the device of its network's resource, or of its claim.
func TestPodVirtualFunctions(t *testing.T) {
	const folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/devices/nic/"
	p := given(t, map[string]string{"NETWORK_RESOURCE_fast": "in.tel/vf_net", "PCIDEVICE_IN_TEL_VF_NET": "0000:81:02.3", "NETWORK_RESOURCE_none": "in.tel/none",
		"PCI_RESOURCE_IN_TEL_NONE": "0000:81:00.0"},
		map[string]string{folder + "d-metadata.json": `{"apiVersion":"metadata.resource.k8s.io/v1beta1","kind":"DeviceMetadata","requests":[
			{"name":"nic","devices":[{"driver":"d","pool":"p","name":"n","attributes":{"resource.kubernetes.io/pciBusID":{"string":"0000:82:00.0"}}}]}]}`})
	vmi, sriov := &v1.VirtualMachineInstance{}, v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}
	vmi.Spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{{Name: "pool", ResourceClaimName: new("devices")}}
	vmi.Spec.Networks = []v1.Network{{Name: "drawn", NetworkSource: v1.NetworkSource{ResourceClaim: &v1.ClaimRequest{ClaimName: "pool", RequestName: "nic"}}}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "fast", InterfaceBindingMethod: sriov}, {Name: "none", InterfaceBindingMethod: sriov},
		{Name: "drawn", InterfaceBindingMethod: sriov}, {Name: "gone", InterfaceBindingMethod: sriov, State: v1.InterfaceStateAbsent}}
	found, errs := p.hostDevices(vmi)
	want := map[string]backend.HostDev{"fast": {Type: "pci", Address: "0000:81:02.3"}, "drawn": {Type: "pci", Address: "0000:82:00.0"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("devices (-want +found):\n%s", diff)
	}
	if len(errs) != 1 {
		t.Errorf("errors %v, want one", errs)
	}
	refused(t, "a resource without a device", "interfaces[1]: Invalid value: \"none\": the device plugin of 'in.tel/none'", errs.ToAggregate())
}

// TestPodClaims: the device of a claim is the one that its driver names in the files of KEP-5304.
func TestPodClaims(t *testing.T) {
	const folder = "/var/run/kubernetes.io/dra-device-attributes/"
	const direct, made = folder + "resourceclaims/devices/gpu/", folder + "resourceclaimtemplates/pool/gpu/"
	const mdev = "b1b71d75-bb21-4c0e-a24b-1f1d2c3d4e5f"
	written := func(version, attributes string) string {
		return `{"apiVersion":"metadata.resource.k8s.io/` + version + `","kind":"DeviceMetadata","metadata":{"name":"x"},"requests":[
			{"name":"other","devices":[{"driver":"d","pool":"p","name":"o"}]},
			{"name":"gpu","devices":[{"driver":"d.example","pool":"p","name":"n","attributes":{` + attributes + `}}]}]}`
	}
	pci, uuid := `"resource.kubernetes.io/pciBusID":{"string":"0000:81:00.0"}`, `"mdevUUID":{"string":"`+mdev+`"}`
	for _, c := range []struct {
		why, claim string
		files      map[string]string
		want       backend.HostDev
		refused    string
	}{
		{"a claim", "own", map[string]string{direct + "d.example-metadata.json": written("v1beta1", pci)}, backend.HostDev{Type: "pci", Address: "0000:81:00.0"}, ""},
		{"of a template", "pool", map[string]string{made + "d.example-metadata.json": written("v1alpha1", pci)},
			backend.HostDev{Type: "pci", Address: "0000:81:00.0"}, ""},
		{"a newer version first", "own", map[string]string{direct + "d-metadata.json": written("v9", pci) + written("v1alpha1", pci)},
			backend.HostDev{Type: "pci", Address: "0000:81:00.0"}, ""},
		{"a mediated device of a card", "own", map[string]string{direct + "d-metadata.json": written("v1alpha1", pci+","+uuid)},
			backend.HostDev{Type: "mdev", Address: mdev}, ""},
		{"a device of another PCI domain", "own", map[string]string{direct + "d-metadata.json": written("v1beta1", strings.Replace(pci, "0000:81", "0009:01", 1))},
			backend.HostDev{Type: "pci", Address: "0009:01:00.0"}, ""},
		{"no address that a host can have", "own", map[string]string{direct + "d-metadata.json": written("v1beta1", strings.Replace(pci, "0000:81", "9:1", 1))},
			backend.HostDev{}, "driver 'd.example' gave this pod '9:1:00.0', which must be a PCI address"},
		{"two drivers", "own", map[string]string{direct + "d-metadata.json": written("v1alpha1", pci), direct + "e-metadata.json": written("v1alpha1", pci)},
			backend.HostDev{}, "has 2 devices, and must have one"},
		{"another file", "own", map[string]string{direct + "readme": "x"}, backend.HostDev{}, "has 0 devices"},
		{"no address", "own", map[string]string{direct + "d-metadata.json": written("v1alpha1", "")}, backend.HostDev{}, "driver 'd.example' reports neither"},
		{"no JSON", "own", map[string]string{direct + "d-metadata.json": "{"}, backend.HostDev{}, "cannot be read"},
		{"no files", "own", nil, backend.HostDev{}, "KEP-5304"},
		{"no such claim", "lost", nil, backend.HostDev{}, "no such claim in resourceClaims"},
	} {
		vmi := &v1.VirtualMachineInstance{}
		vmi.Spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{{Name: "own", ResourceClaimName: new("devices")},
			{Name: "pool", ResourceClaimTemplateName: new("devices")}}
		vmi.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "gpu", ClaimRequest: &v1.ClaimRequest{ClaimName: c.claim, RequestName: "gpu"}}}
		found, errs := given(t, nil, c.files).hostDevices(vmi)
		if refused(t, c.why, c.refused, errs.ToAggregate()); c.refused != "" {
			continue
		}
		if diff := cmp.Diff(map[string]backend.HostDev{"gpu": c.want}, found); diff != "" {
			t.Errorf("%s (-want +found):\n%s", c.why, diff)
		}
	}
	twice := &v1.VirtualMachineInstance{}
	twice.Spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{{Name: "own", ResourceClaimName: new("devices")}}
	request := &v1.ClaimRequest{ClaimName: "own", RequestName: "gpu"}
	twice.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "a", ClaimRequest: request}, {Name: "b", ClaimRequest: request}}
	out := &v1.VirtualMachineInstance{}
	out.Spec.ResourceClaims = twice.Spec.ResourceClaims
	out.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "a", ClaimRequest: &v1.ClaimRequest{ClaimName: "own", RequestName: "../../../volumes/own"}}}
	files := map[string]string{direct + ".keep": "", "/var/run/kubernetes.io/volumes/own/d-metadata.json": written("v1alpha1", pci)}
	_, errs := given(t, nil, files).hostDevices(out)
	refused(t, "a name that leads out", "KEP-5304", errs.ToAggregate())
	_, errs = given(t, nil, map[string]string{direct + "d-metadata.json": written("v1alpha1", pci)}).hostDevices(twice)
	refused(t, "one device twice", "gpus[1]: Invalid value: \"b\": another device of this virtual machine instance has the same request", errs.ToAggregate())
}
