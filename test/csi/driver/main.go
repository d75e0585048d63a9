// Driver is a CSI driver for one node. Its volumes are folders and sparse files, its snapshots copies of them. It registers itself with kubelet, as the
// sidecar node-driver-registrar does for others.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// name is the driver's name in StorageClasses.
const name = "copies.csi.kilnvm.io"

func main() {
	dir := flag.String("dir", "", "folder of volumes and snapshots")
	endpoint := flag.String("endpoint", "", "path of the socket")
	registry := flag.String("registry", "", "kubelet's folder plugins_registry; without it kubelet is not told of the driver")
	node := flag.String("node", "node-1", "name of the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := runDriver(ctx, &driver{store: store{dir: *dir}, node: *node}, *endpoint, *registry); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// runDriver serves until the context ends.
func runDriver(ctx context.Context, d *driver, endpoint, registry string) error {
	if err := d.store.open(); err != nil {
		return err
	}
	services := grpc.NewServer(grpc.UnaryInterceptor(logFailure))
	csi.RegisterIdentityServer(services, &identity{})
	csi.RegisterControllerServer(services, &controller{driver: d})
	csi.RegisterNodeServer(services, &nodeServer{driver: d})
	failed := make(chan error, 2)
	if err := serveSocket(services, endpoint, failed); err != nil {
		return err
	}
	defer services.Stop()
	if registry != "" {
		registrar := grpc.NewServer()
		registration.RegisterRegistrationServer(registrar, &kubeletRegistrar{endpoint: endpoint})
		if err := serveSocket(registrar, filepath.Join(registry, name+"-reg.sock"), failed); err != nil {
			return err
		}
		defer registrar.Stop()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// serveSocket listens at a path, where an earlier process may have left its socket.
func serveSocket(server *grpc.Server, path string, failed chan<- error) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() { failed <- server.Serve(listener) }()
	return nil
}

// logFailure writes each failed call to standard error.
func logFailure(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v: %v\n", info.FullMethod, request, err)
	}
	return answer, err
}
