package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Disturbance is what a network or a slow server does to the connections of an endpoint, those that exist among them.
type Disturbance struct {
	// Delay is the time after which each answer arrives. TLS handshakes are not delayed.
	Delay time.Duration
	// Silent loses all packets: nothing arrives, and nothing is reset.
	Silent bool
}

// disturbances are the Disturbance of each endpoint of a balancer, by its address.
type disturbances struct {
	mutex sync.Mutex
	all   map[string]Disturbance
}

func (d *disturbances) of(address string) Disturbance {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.all[address]
}

func (d *disturbances) set(address string, to Disturbance) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.all == nil {
		d.all = map[string]Disturbance{}
	}
	d.all[address] = to
}

// awaitArrival waits while packets are lost.
func (d *disturbances) awaitArrival(address string) {
	for d.of(address).Silent {
		time.Sleep(20 * time.Millisecond)
	}
}

// copyBoth copies between a client and an endpoint until either ends.
func (d *disturbances) copyBoth(client, server net.Conn, address string) {
	// turns counts the flights of the client: the first one is the first part of the handshake, and later ones contain requests.
	var turns atomic.Int64
	var answered atomic.Bool
	answered.Store(true)
	go func() {
		copyChunks(server, client, func() {
			d.awaitArrival(address)
			if answered.Swap(false) {
				turns.Add(1)
			}
		})
		server.Close()
	}()
	copyChunks(client, server, func() {
		d.awaitArrival(address)
		if delay := d.of(address).Delay; !answered.Swap(true) && turns.Load() > 1 && delay > 0 {
			time.Sleep(delay)
		}
	})
}

// copyChunks copies what is read until an end or an error, and calls a function before each write.
func copyChunks(to io.Writer, from io.Reader, before func()) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			before()
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// DisturbWebhook disturbs the connections of replicas of Kiln's webhook.
func (c *Cluster) DisturbWebhook(to Disturbance, numbers ...int) {
	for _, i := range numbers {
		c.balancer.disturbances.set(c.replicas[i].address, to)
	}
}

// DisturbVirtAPI disturbs the connections of virt-api's webhooks.
func (b *Beside) DisturbVirtAPI(to Disturbance) { b.api.balancer.disturbances.set(b.api.address(), to) }

// ThrottleWebhook gives replicas of Kiln's webhook a share of the CPU time, as a quota of their cgroup does: they are stopped for the rest of each period. It
// returns when the context ends.
func (c *Cluster) ThrottleWebhook(ctx context.Context, share float64, numbers ...int) {
	var all []*process
	for _, i := range numbers {
		all = append(all, c.replicas[i].process)
	}
	throttle(ctx, share, all)
}

// ThrottleVirtAPI does the same to virt-api.
func (b *Beside) ThrottleVirtAPI(ctx context.Context, share float64) {
	throttle(ctx, share, []*process{b.api.process})
}

// quotaPeriod is the kernel's default period of a quota of CPU time.
const quotaPeriod = 100 * time.Millisecond

func throttle(ctx context.Context, share float64, all []*process) {
	signal := func(what syscall.Signal) {
		for _, p := range all {
			_ = p.cmd.Process.Signal(what) // one that has ended is started again by others
		}
	}
	defer signal(syscall.SIGCONT)
	runs := time.Duration(share * float64(quotaPeriod))
	for ctx.Err() == nil {
		signal(syscall.SIGSTOP)
		time.Sleep(quotaPeriod - runs)
		signal(syscall.SIGCONT)
		time.Sleep(runs)
	}
}

// Thresholds of the readiness probe in manifests/webhook/deployment.yaml.
const (
	probePeriod, probeTimeout = time.Second, time.Second
	probeFailures             = 3
	probeSuccesses            = 3
)

// ProbeWebhook takes replicas of the webhook out of the Service while they are not ready, as kubelet does, until the context ends.
func (c *Cluster) ProbeWebhook(ctx context.Context) {
	service := c.balancer // Close forgets it
	for _, r := range c.replicas {
		go func() {
			client := &http.Client{Timeout: probeTimeout}
			for failed, succeeded := 0, 0; ctx.Err() == nil; time.Sleep(probePeriod) {
				response, err := client.Get("http://" + r.health + "/readyz") //nolint:noctx // it has a limit
				if err == nil {
					response.Body.Close()
				}
				if err != nil || response.StatusCode != http.StatusOK {
					failed, succeeded = failed+1, 0
				} else {
					failed, succeeded = 0, succeeded+1
				}
				switch {
				case failed == probeFailures:
					service.remove(r.address)
				case succeeded == probeSuccesses:
					service.add(r.address)
				}
			}
		}()
	}
}
