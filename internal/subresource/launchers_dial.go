package subresource

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// dialRetry is the time after which dial tries again.
const dialRetry = 100 * time.Millisecond

// dialLauncher connects to a launcher. A launcher accepts a few handshakes of an address at a time and closes further connections (package launcherserver). No
// request has been sent then, so dial tries again until dialLimit.
func dialLauncher(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	for {
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
		if err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(dialRetry):
		}
	}
}
