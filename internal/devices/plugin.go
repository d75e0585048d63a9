package devices

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	kubelet "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// access are the permissions of a container for a device. 'm' would allow it to create device nodes.
const access = "rw"

// plugin serves one device to kubelet. A machine has one of each device, which any number of processes can open, so the plugin reports count of them.
type plugin struct {
	kubelet.UnimplementedDevicePluginServer
	device  Device
	folders Folders
	count   int
	// period is the time between two checks of the device.
	period time.Duration
	log    logr.Logger
}

// GetDevicePluginOptions returns no options.
func (p *plugin) GetDevicePluginOptions(context.Context, *kubelet.Empty) (*kubelet.DevicePluginOptions, error) {
	return &kubelet.DevicePluginOptions{}, nil
}

// ListAndWatch sends the list at once, and again whenever the device is added or removed.
func (p *plugin) ListAndWatch(_ *kubelet.Empty, to grpc.ServerStreamingServer[kubelet.ListAndWatchResponse]) error {
	fault := p.folders.deviceFault(p.device)
	for {
		p.log.Info("the device is reported to kubelet", "resource", p.device.Resource(), "fault", fault)
		if err := to.Send(&kubelet.ListAndWatchResponse{Devices: p.listDevices(fault == "")}); err != nil {
			return err
		}
		for before := fault; fault == before; fault = p.folders.deviceFault(p.device) {
			select {
			case <-to.Context().Done():
				return nil
			case <-time.After(p.period):
			}
		}
	}
}

// health has kubelet's words for a usable and an unusable device.
var health = map[bool]string{true: kubelet.Healthy, false: kubelet.Unhealthy}

func (p *plugin) listDevices(usable bool) []*kubelet.Device {
	all := make([]*kubelet.Device, p.count)
	for i := range all {
		all[i] = &kubelet.Device{ID: p.device.Name + strconv.Itoa(i), Health: health[usable]}
	}
	return all
}

// Allocate gives the device once to each container, whatever quantity of the resource it requests. It names the device twice, by its path and by CDI. A
// runtime with CDI replaces the first by the second, which has an owner. A runtime without CDI ignores the second.
func (p *plugin) Allocate(_ context.Context, asked *kubelet.AllocateRequest) (*kubelet.AllocateResponse, error) {
	given := &kubelet.ContainerAllocateResponse{
		Devices: []*kubelet.DeviceSpec{{ContainerPath: p.device.Path, HostPath: p.device.Path, Permissions: access}},
	}
	// A name that the runtime cannot find would fail the container.
	if _, err := os.Stat(filepath.Join(p.folders.CDI, cdiFile)); err == nil {
		given.CdiDevices = []*kubelet.CDIDevice{{Name: cdiName(p.device)}}
	}
	answer := &kubelet.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}

// socketName returns the name of the plugin's socket in the folder of plugins.
func (p *plugin) socketName() string { return fmt.Sprintf("kiln-%s.sock", p.device.Name) }
