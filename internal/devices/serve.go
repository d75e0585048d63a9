package devices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kubelet "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// kubeletSocket is the name of kubelet's socket in the folder of plugins.
	kubeletSocket = "kubelet.sock"
	// registerLimit bounds how long kubelet may take to register a plugin.
	registerLimit = 10 * time.Second
)

// serveForever keeps the plugin registered with kubelet until the context ends, because a kubelet that starts removes all sockets of plugins and forgets the
// plugins. It calls registered after each registration.
func (p *plugin) serveForever(ctx context.Context, registered func()) {
	for reported := ""; ctx.Err() == nil; {
		err := p.serveOnce(ctx, func() { reported = ""; registered() })
		if err != nil && err.Error() != reported && ctx.Err() == nil { // not once a second while kubelet does not run
			reported = err.Error()
			p.log.Error(err, "the device is not served to kubelet", "resource", p.device.Resource())
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.period):
		}
	}
}

// serveOnce serves until the context or this kubelet ends.
func (p *plugin) serveOnce(ctx context.Context, registered func()) error {
	own, theirs := filepath.Join(p.folders.Plugins, p.socketName()), filepath.Join(p.folders.Plugins, kubeletSocket)
	// Before the registration, to notice a socket that is created again meanwhile.
	before, err := os.Stat(theirs)
	if err != nil {
		return err
	}
	if err := os.Remove(own); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a process that was killed
		return err
	}
	listener, err := net.Listen("unix", own)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	kubelet.RegisterDevicePluginServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop()
	mine, err := os.Stat(own)
	if err == nil {
		err = p.registerWithKubelet(ctx, theirs)
	}
	if err != nil {
		return err
	}
	registered()
	for isSameFile(own, mine) && isSameFile(theirs, before) {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-time.After(p.period):
		}
	}
	p.log.Info("kubelet has started again", "resource", p.device.Resource())
	return nil
}

// isSameFile reports whether a path still has the same file. It compares times, too, because file systems use inode numbers again.
func isSameFile(file string, before os.FileInfo) bool {
	now, err := os.Stat(file)
	return err == nil && os.SameFile(before, now) && now.ModTime().Equal(before.ModTime())
}

func (p *plugin) registerWithKubelet(ctx context.Context, theirs string) error {
	connection, err := grpc.NewClient("unix://"+theirs, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, registerLimit)
	defer cancel()
	if _, err := kubelet.NewRegistrationClient(connection).Register(ctx, &kubelet.RegisterRequest{
		Version: kubelet.Version, Endpoint: p.socketName(), ResourceName: p.device.Resource(),
	}); err != nil {
		return fmt.Errorf("registering '%s' with kubelet: %w", p.device.Resource(), err)
	}
	return nil
}
