package command

import (
	"context"
	"net"
	"time"
)

// batchGap is the time for which the informer of VMs lets data arrive before it reads again.
const batchGap = 50 * time.Millisecond

// batchedConn is a connection that is read in batches. When many VMs are created at once, each event of a watch would otherwise wake the process, which is
// about half of the time that the controller spends on an event. A read that empties the connection delays the next one by batchGap; the first data after a
// longer pause is read at once.
type batchedConn struct {
	net.Conn
	// next is the time of the next read.
	next time.Time
}

func (b *batchedConn) Read(into []byte) (int, error) {
	time.Sleep(time.Until(b.next))
	n, err := b.Conn.Read(into)
	if n < len(into) { // nothing is left to be read
		b.next = time.Now().Add(batchGap)
	}
	return n, err
}

// dialBatches is a rest.Config.Dial for connections that are read in batches. Timeouts are those of client-go's own dialer.
func dialBatches(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	connection, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &batchedConn{Conn: connection}, nil
}
