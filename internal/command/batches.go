package command

import (
	"context"
	"net"
	"time"
)

// batchGap is the time for which the informer of VMs lets data arrive before it reads again.
const batchGap = 50 * time.Millisecond

// batches is a connection that is read in batches. When many VMs are created at once, each event of a watch would otherwise wake the process: of the time
// that the controller spends on an event, that is about half. The first data after a pause of batchGap is read at once. As long as more data is there than a
// read takes, as in a list, no read waits.
type batches struct {
	net.Conn
	// next is the time of the next read.
	next time.Time
}

func (b *batches) Read(into []byte) (int, error) {
	time.Sleep(time.Until(b.next))
	n, err := b.Conn.Read(into)
	if n < len(into) { // nothing is left to be read
		b.next = time.Now().Add(batchGap)
	}
	return n, err
}

// dialBatches is a rest.Config.Dial. Its other values are those of client-go.
func dialBatches(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	connection, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &batches{Conn: connection}, nil
}
