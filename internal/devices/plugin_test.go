package devices

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/testing/protocmp"
	kubelet "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// fakeKubelet keeps what plugins register.
type fakeKubelet struct {
	kubelet.UnimplementedRegistrationServer
	server *grpc.Server
	asked  chan *kubelet.RegisterRequest
}

func (k *fakeKubelet) Register(_ context.Context, asked *kubelet.RegisterRequest) (*kubelet.Empty, error) {
	k.asked <- asked
	return &kubelet.Empty{}, nil
}

// startKubelet removes all sockets, as kubelet does.
func startKubelet(t *testing.T, f Folders) *fakeKubelet {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(f.Plugins, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range sockets {
		remove(t, socket)
	}
	listener, err := net.Listen("unix", filepath.Join(f.Plugins, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKubelet{server: grpc.NewServer(), asked: make(chan *kubelet.RegisterRequest, 10)}
	kubelet.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }()
	t.Cleanup(k.server.Stop)
	return k
}

// next is what a channel gives within ten seconds.
func next[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(10 * time.Second):
		t.Fatalf("not within ten seconds: %s", what)
	}
	return got
}

// startPlugin serves a device until the test ends.
func startPlugin(t *testing.T, f Folders, d Device) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	p := &plugin{device: d, folders: f, count: 3, period: 5 * time.Millisecond, log: logr.Discard()}
	go func() { p.serveForever(ctx, func() {}); close(ended) }()
	t.Cleanup(func() {
		cancel()
		next(t, "the plugin ends with its context", ended)
		if left, _ := filepath.Glob(filepath.Join(f.Plugins, "kiln-*")); len(left) > 0 {
			t.Errorf("the plugin has left %v", left)
		}
	})
}

// asking asks a plugin as kubelet does.
func asking(t *testing.T, f Folders, endpoint string) kubelet.DevicePluginClient {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(f.Plugins, endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return kubelet.NewDevicePluginClient(connection)
}

// watched are the lists that a plugin sends.
func watched(t *testing.T, plugin kubelet.DevicePluginClient) <-chan *kubelet.ListAndWatchResponse {
	t.Helper()
	stream, err := plugin.ListAndWatch(t.Context(), &kubelet.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	lists := make(chan *kubelet.ListAndWatchResponse, 10)
	go func() {
		for list, err := stream.Recv(); err == nil; list, err = stream.Recv() {
			lists <- list
		}
	}()
	return lists
}

// TestRegistration: by KubeVirt's names, and again with each kubelet that starts.
func TestRegistration(t *testing.T) {
	for _, d := range Served {
		f := machine(t)
		write(t, filepath.Join(f.Plugins, "kiln-"+d.Name+".sock"), "left by a process that was killed")
		startPlugin(t, f, d) // before kubelet
		for range 3 {
			k := startKubelet(t, f)
			want := &kubelet.RegisterRequest{Version: "v1beta1", Endpoint: "kiln-" + d.Name + ".sock", ResourceName: "devices.kubevirt.io/" + d.Name}
			if diff := cmp.Diff(want, next(t, d.Name+" is registered", k.asked), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			list := next(t, "the list of "+d.Name, watched(t, asking(t, f, want.Endpoint)))
			if len(list.Devices) != 3 || list.Devices[0].Health != kubelet.Healthy || list.Devices[0].ID == list.Devices[1].ID {
				t.Errorf("%s: %v, want three healthy devices", d.Name, list.Devices)
			}
			k.server.Stop()
		}
	}
}

// TestOwnSocketIsTaken: another process of the same name, which ends late, removes the socket of its successor.
func TestOwnSocketIsTaken(t *testing.T) {
	f := machine(t)
	k := startKubelet(t, f)
	startPlugin(t, f, Served[0])
	asked := next(t, "the first registration", k.asked)
	remove(t, filepath.Join(f.Plugins, asked.Endpoint))
	next(t, "the second registration", k.asked)
	next(t, "the list", watched(t, asking(t, f, asked.Endpoint)))
}

// TestDeviceGoesAndComes: kubelet hears of both.
func TestDeviceGoesAndComes(t *testing.T) {
	f := machine(t)
	k := startKubelet(t, f)
	kvm := Served[0]
	startPlugin(t, f, kvm)
	lists := watched(t, asking(t, f, next(t, "the registration", k.asked).Endpoint))
	for i, want := range []string{kubelet.Healthy, kubelet.Unhealthy, kubelet.Healthy} {
		for _, device := range next(t, "list "+want, lists).Devices {
			if device.Health != want {
				t.Errorf("list %d: device '%s' is %s, want %s", i, device.ID, device.Health, want)
			}
		}
		if want == kubelet.Healthy {
			remove(t, onMachine(f, kvm))
		} else {
			addDevice(t, f, kvm)
		}
	}
}

// TestAllocate: one device for each container, with its description for CDI only if the runtime can have it.
func TestAllocate(t *testing.T) {
	f := machine(t)
	k := startKubelet(t, f)
	startPlugin(t, f, Served[1])
	tun := asking(t, f, next(t, "the registration", k.asked).Endpoint)
	plain := &kubelet.ContainerAllocateResponse{
		Devices: []*kubelet.DeviceSpec{{ContainerPath: "/dev/net/tun", HostPath: "/dev/net/tun", Permissions: "rw"}},
	}
	described := &kubelet.ContainerAllocateResponse{Devices: plain.Devices, CdiDevices: []*kubelet.CDIDevice{{Name: "kilnvm.io/guest=tun"}}}
	two, one := &kubelet.ContainerAllocateRequest{DevicesIds: []string{"tun0", "tun2"}}, &kubelet.ContainerAllocateRequest{DevicesIds: []string{"tun1"}}
	asked := &kubelet.AllocateRequest{ContainerRequests: []*kubelet.ContainerAllocateRequest{two, one}}
	allocate := func(want *kubelet.ContainerAllocateResponse) {
		t.Helper()
		got, err := tun.Allocate(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*kubelet.ContainerAllocateResponse{want, want}, got.ContainerResponses, protocmp.Transform()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	allocate(plain)
	if err := f.writeCDI(); err != nil {
		t.Fatal(err)
	}
	allocate(described)
	if err := os.Remove(filepath.Join(f.CDI, cdiFile)); err != nil {
		t.Fatal(err)
	}
	allocate(plain)
}
