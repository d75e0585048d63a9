package fields

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/pkg/baremachine"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	pods "github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	v1 "kubevirt.io/api/core/v1"
)

// answer is what a runtime makes of an explicit VMI.
type answer struct {
	outcome
	// pod is the pod's JSON, empty in a runtime without pods.
	pod string
	// bound is what the launcher found or made: paths, and the content of files.
	bound    string
	warnings []string
}

// runtime is one that Kiln has.
type runtime struct {
	name string
	// judge looks at a VMI before it reaches a machine: the pod, warnings, refusals.
	judge func(*v1.VirtualMachineInstance) (string, []string, field.ErrorList)
	// bind finds what the VMI needs, in an empty folder that has all that the VMI names.
	bind func(vmi *v1.VirtualMachineInstance, dir string) (hostresources.Bound, field.ErrorList)
}

// folders counts those that were made.
var folders atomic.Int64

// runStages runs an explicit VMI as far as stage 3. It returns the errors of the first step that has any.
func (r runtime) runStages(vmi *v1.VirtualMachineInstance, cluster config.Cluster) (a answer) {
	a.explicit = vmi
	if a.pod, a.warnings, a.refused = r.judge(vmi); len(a.refused) > 0 {
		return a
	}
	// Overlays contain the path of their base: each folder has a path of the same length.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("fields-%08d-%08d", os.Getpid(), folders.Add(1)))
	must(os.Mkdir(dir, 0o700))
	defer func() { must(os.RemoveAll(dir)) }()
	bound, errs := r.bind(vmi, dir)
	if a.refused = errs; len(errs) > 0 {
		return a
	}
	out, errs := render.Domain(render.Machine{
		VMI: vmi, Defaults: cluster.Frontend, Host: backend.Assumed(vmi.Spec.Architecture), Bindings: bound.Bindings})
	if a.refused = errs; len(errs) > 0 {
		return a
	}
	text, err := out.Documents.Domain.Marshal()
	must(err)
	a.elements = map[string][]string{}
	a.addElements(strings.ReplaceAll(text, dir, ""))
	paths, err := json.Marshal(bound.Bindings)
	must(err)
	a.bound = strings.ReplaceAll(string(paths), dir, "") + folderContents(dir)
	return a
}

// common are files that some kind of volume has, by their names. Every volume of a pod and every image of a machine has all of them.
var common = []string{"disk.img", "disk/disk.img", "disk/os.iso", "vmlinuz", "initrd", "userdata", "networkdata", "slic.bin", "msdm.bin", "key"}

func createFiles(dir string) {
	for _, name := range common {
		file := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(file), 0o755))
		must(os.WriteFile(file, []byte(strings.Repeat(name, 512)), 0o644))
	}
}

// inPods is the runtime of pods under settings of an administrator.
func inPods(settings pods.Settings) runtime {
	settings.Image, settings.Network = "launcher", pods.Passt
	of := func(vmi *v1.VirtualMachineInstance) (pods.Result, field.ErrorList) {
		in := pods.Input{VMI: vmi, Settings: settings, Claims: map[string]pods.Claim{}, NetworkResources: map[string]string{}}
		for _, network := range vmi.Spec.Networks {
			if network.Multus != nil {
				in.NetworkResources[network.Multus.NetworkName] = "example.com/" + network.Name
			}
		}
		for _, volume := range vmi.Spec.Volumes {
			for _, name := range claimsOf(volume) {
				in.Claims[name] = pods.Claim{}
			}
		}
		return pods.New(in)
	}
	return runtime{"pod", func(vmi *v1.VirtualMachineInstance) (string, []string, field.ErrorList) {
		made, errs := of(vmi)
		raw, err := json.Marshal(made.Pod)
		must(err)
		return string(raw), made.Warnings, errs
	}, func(vmi *v1.VirtualMachineInstance, dir string) (hostresources.Bound, field.ErrorList) {
		made, _ := of(vmi)
		for _, mount := range made.Pod.Spec.Containers[0].VolumeMounts {
			if mount.MountPath != pods.Private {
				createFiles(filepath.Join(dir, mount.MountPath))
			}
		}
		allocateClaims(dir)
		launcher := &hostresources.Pod{Root: dir, Network: pods.Passt, Getenv: func(name string) string {
			for _, variable := range made.Pod.Spec.Containers[0].Env {
				if variable.Name == name {
					return variable.Value
				}
			}
			return devicesOfPlugin(name)
		}}
		for cpu := range pods.DedicatedCPUs(vmi) { // kubelet gives what the pod requests
			launcher.CPUs = append(launcher.CPUs, int(cpu))
		}
		return launcher.Bind(context.Background(), vmi)
	}}
}

// devicesOfPlugin returns what device plugins give for the resources of the samples: mediated devices for GPUs.
func devicesOfPlugin(name string) string {
	switch {
	case strings.HasPrefix(name, v1.MDevResourcePrefix) && strings.HasSuffix(name, "GPU"):
		return "b1b71d75-bb21-4c0e-a24b-1f1d2c3d4e5f,b1b71d75-bb21-4c0e-a24b-1f1d2c3d4e60"
	case strings.HasPrefix(name, v1.PCIResourcePrefix) && !strings.HasSuffix(name, "GPU"):
		return "0000:81:00.0,0000:81:00.1"
	case strings.HasPrefix(name, "PCIDEVICE_EXAMPLE_COM_"):
		return "0000:83:00.0"
	}
	return ""
}

// allocateClaims writes what a driver allocates for the claims of the samples.
func allocateClaims(dir string) {
	for claim, requests := range map[string][]string{"resourceclaims/devices": {"gpu", "card", "nic"}, "resourceclaimtemplates/made": {"gpu", "card", "nic"}} {
		for i, request := range requests {
			file := filepath.Join(dir, metadata.ContainerDir, claim, request, "example.com"+metadata.MetadataFileSuffix)
			must(os.MkdirAll(filepath.Dir(file), 0o755))
			must(os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "metadata.resource.k8s.io/v1beta1", "kind": "DeviceMetadata", "requests": [{"name": "%s",
				"devices": [{"driver": "example.com", "pool": "p", "name": "n", "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:82:00.%d"}}}]}]}`,
				request, i), 0o644))
		}
	}
}

func claimsOf(volume v1.Volume) []string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return []string{volume.PersistentVolumeClaim.ClaimName}
	case volume.DataVolume != nil:
		return []string{volume.DataVolume.Name}
	case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
		return []string{volume.Ephemeral.PersistentVolumeClaim.ClaimName}
	}
	return nil
}

// described is a claim that the administrator of a bare machine describes.
const described = "apiVersion: kilnvm.io/v1alpha1\nkind: HostClaim\nspec: {network: {protocol: rbd, name: pool/%s, hosts: [{name: 192.0.2.1}]}}\n"

// onMachine is the runtime of bare machines, with a launcher that has all flags. It has every image and claim that the samples name.
func onMachine(images []string) runtime {
	return runtime{"node", func(vmi *v1.VirtualMachineInstance) (string, []string, field.ErrorList) {
		return "", baremachine.WarningsOf(vmi), nil
	}, func(vmi *v1.VirtualMachineInstance, dir string) (hostresources.Bound, field.ErrorList) {
		root, claims := filepath.Join(dir, "root"), filepath.Join(dir, "claims")
		for _, image := range images {
			createFiles(filepath.Join(root, "containers", image))
		}
		must(os.MkdirAll(filepath.Join(root, "disks"), 0o755))
		must(os.WriteFile(filepath.Join(root, "disks", "there.img"), []byte("a disk"), 0o644))
		must(os.MkdirAll(filepath.Join(claims, vmi.Namespace), 0o700))
		for _, volume := range vmi.Spec.Volumes {
			for _, name := range claimsOf(volume) {
				must(os.WriteFile(filepath.Join(claims, vmi.Namespace, name+".yaml"), fmt.Appendf(nil, described, name), 0o600))
			}
		}
		volumes, err := hostresources.OpenRoot(root)
		must(err)
		defer volumes.Close()
		folder, err := hostresources.OpenClaims(claims)
		must(err)
		defer folder.Close()
		launcher := &hostresources.BareMachine{Volumes: volumes, Claims: folder, State: filepath.Join(dir, "state"), Bridges: map[string]string{}}
		for _, network := range vmi.Spec.Networks {
			launcher.Bridges[network.Name] = "br0"
		}
		own := vmi.DeepCopy()
		for i := range own.Spec.Volumes {
			if disk := own.Spec.Volumes[i].HostDisk; disk != nil {
				disk.Path = filepath.Join(root, disk.Path)
			}
		}
		bound, errs := launcher.Bind(context.Background(), own, nil)
		if pods.DedicatedCPUs(vmi) > 0 { // the launcher gives all that no other domain has
			for _, node := range backend.Assumed(vmi.Spec.Architecture).NUMA {
				for _, cpu := range node.CPUs {
					bound.CPUs = append(bound.CPUs, cpu.ID)
				}
			}
		}
		return bound, errs
	}}
}

// imagesOf are the images that VMIs name.
func imagesOf(samples []Guest) (images []string) {
	for _, guest := range samples {
		for _, volume := range guest.VMI.Spec.Volumes {
			if volume.ContainerDisk != nil {
				images = append(images, volume.ContainerDisk.Image)
			}
		}
		if f := guest.VMI.Spec.Domain.Firmware; f != nil && f.KernelBoot != nil && f.KernelBoot.Container != nil {
			images = append(images, f.KernelBoot.Container.Image)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}
