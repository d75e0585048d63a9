package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservePort gives a free port of 127.0.0.1 and keeps it until the file descriptor is closed.
//
// Probing for a free port, closing it and telling the API server its number leaves a moment in which
// anybody else may take it, and tests that run in parallel do. So the port stays bound here, without
// listening, and the API server joins it with SO_REUSEPORT (--permit-port-sharing). The kernel never
// hands out a bound port to those who ask for any, and lets only the same user join it by number.
func reservePort() (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, fmt.Errorf("opening a socket: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return -1, 0, fmt.Errorf("setting SO_REUSEPORT: %w", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return -1, 0, fmt.Errorf("finding a free port of 127.0.0.1: %w", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return -1, 0, fmt.Errorf("reading the reserved port: %w", err)
	}
	return fd, name.(*unix.SockaddrInet4).Port, nil
}
