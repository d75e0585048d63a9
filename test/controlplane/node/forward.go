package node

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// forwardListener leads connections of an inherited listener, which belongs to the network namespace it was made in, to an address of this
// process's. It ends with the listener.
func forwardListener(descriptor uintptr, address string) error {
	file := os.NewFile(descriptor, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	_ = file.Close() // the listener has its own copy
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go relayConnection(client, address)
		}
	}()
	return nil
}

func relayConnection(client net.Conn, address string) {
	defer client.Close()
	dialer := net.Dialer{Timeout: 10 * time.Second}
	server, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return // the client sees a closed connection, as from a server that has ended
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() { copyHalf(server, client) })
	both.Go(func() { copyHalf(client, server) })
	both.Wait()
}

// copyHalf also passes on the end of what it reads.
func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}
