package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"

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

// Forward makes a port of this machine's 127.0.0.1 the same port of the node's, so that the API server reaches a program that listens there. It ends with the
// context.
func (n *Node) Forward(ctx context.Context, port int) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := n.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(client, address)
		}
	}()
	return nil
}

// relay connects a connection to an address of this machine until one of the two ends.
func relay(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return // the client sees a closed connection, as from a program that has ended
	}
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, to := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(to[0], to[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}
