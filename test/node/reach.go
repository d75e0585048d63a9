package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects to an address of the node's network: pods, ClusterIPs, the node itself. There is no DNS in it.
func (n *Node) Dial(ctx context.Context, network, address string) (connection net.Conn, err error) {
	err = n.inNetwork(func() error {
		connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

// Listen listens on an address of the node, so that the API server and pods reach a server that runs in the test: an empty host means
// all addresses of the node.
func (n *Node) Listen(ctx context.Context, network, address string) (listener net.Listener, err error) {
	err = n.inNetwork(func() error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// inNetwork calls a function on a thread that is in the network namespace of the node. What it opens stays there; what it starts, such as another
// goroutine, does not: names, which Go resolves in others, are not for it.
func (n *Node) inNetwork(do func() error) error {
	failed := make(chan error, 1)
	go func() {
		// A thread that cannot go back must not serve others: without UnlockOSThread it ends with this goroutine.
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			failed <- err
			return
		}
		defer own.Close()
		node, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.PID))
		if err != nil {
			failed <- fmt.Errorf("the node has ended: %w", err)
			return
		}
		defer node.Close()
		if err := unix.Setns(int(node.Fd()), unix.CLONE_NEWNET); err != nil {
			failed <- fmt.Errorf("entering the node's network: %w", err)
			return
		}
		err = do()
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		failed <- err
	}()
	return <-failed
}
