package hook

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
)

// Serve serves on a Unix socket until the context ends, or until virt-launcher announces its end: a sidecar that goes on would keep the pod from completing.
// It first removes the socket of a process that was killed.
func (h *Hook) Serve(ctx context.Context, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	var once sync.Once
	done := make(chan struct{})
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{}))
	h.registerServices(server, func() { once.Do(func() { close(done) }) })
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	h.Log.Info("serving", "socket", socket)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		server.Stop()
	case <-done:
		h.Log.Info("virt-launcher ends")
		server.GracefulStop() // after the answer
	}
	return <-ended
}
