package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// noticed is the time from the death of a container until kubelet has seen it: it looks once a second. The Service still has the endpoint until then.
const noticed = time.Second

// KillWebhook kills a replica of the webhook, as the kernel does that is out of memory. It is an endpoint of the Service for another second. Then it
// is started again, as kubelet does. KillWebhook returns when it is ready.
func (c *Cluster) KillWebhook(ctx context.Context, numbers ...int) error {
	for _, i := range numbers {
		if err := c.replicas[i].process.kill(); err != nil {
			return err
		}
	}
	time.Sleep(noticed)
	for _, i := range numbers {
		if c.balancer != nil {
			c.balancer.remove(c.replicas[i].address)
		}
		if err := c.runReplica(c.replicas[i]); err != nil {
			return err
		}
	}
	for _, i := range numbers {
		if err := c.joins(ctx, c.replicas[i]); err != nil {
			return err
		}
	}
	return nil
}

// RollWebhook replaces all replicas of the webhook by processes of a program in the folder of Program, as the Deployment's rolling update does: a
// new one serves before an old one is taken out of the Service and asked to stop at the same moment. It returns when the old ones have ended.
func (c *Cluster) RollWebhook(ctx context.Context, program string) error {
	ended := make(chan error, len(c.replicas))
	for i, old := range c.replicas {
		r, err := c.place()
		if err != nil {
			return err
		}
		r.program = program
		if err := c.runReplica(r); err != nil {
			return err
		}
		if err := c.joins(ctx, r); err != nil {
			return err
		}
		c.replicas[i] = r
		if c.balancer != nil {
			c.balancer.remove(old.address)
		}
		go func() { ended <- old.process.stop() }()
	}
	var errs []error
	for range c.replicas {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// DrainWebhook removes one replica of the webhook as the eviction of its pod does, and brings up another one in its place.
func (c *Cluster) DrainWebhook(ctx context.Context, i int) error {
	old := c.replicas[i]
	if c.balancer != nil {
		c.balancer.remove(old.address)
	}
	ended := make(chan error, 1)
	go func() { ended <- old.process.stop() }()
	r, err := c.place()
	if err != nil {
		return err
	}
	r.program = old.program
	c.replicas[i] = r
	return errors.Join(c.runReplica(r), c.joins(ctx, r), <-ended)
}

// RollController replaces all replicas of the controller by processes of a program in the folder of Program.
func (c *Cluster) RollController(ctx context.Context, program string) error {
	for i, old := range c.controls {
		r := &control{program: program}
		if err := c.runControl(ctx, r); err != nil {
			return err
		}
		c.controls[i] = r
		if err := old.process.stop(); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoLeader says that no controller holds the Lease at the moment: the last one has ended, and the next one waits.
var ErrNoLeader = errors.New("no controller holds the Lease")

// leader finds the controller that was the last to log that it holds the Lease.
func (c *Cluster) leader() (*control, error) {
	for _, r := range c.controls {
		log, err := os.ReadFile(r.process.log)
		if err != nil {
			return nil, err
		}
		select {
		case <-r.process.ended:
		default:
			if strings.Contains(string(log), "Successfully acquired lease") || strings.Contains(string(log), "successfully acquired lease") {
				return r, nil
			}
		}
	}
	return nil, ErrNoLeader
}

// KillLeader kills the controller that works, and starts it again after a second.
func (c *Cluster) KillLeader(ctx context.Context) error {
	r, err := c.leader()
	if err != nil {
		return err
	}
	if err := r.process.kill(); err != nil {
		return err
	}
	time.Sleep(noticed)
	return c.runControl(ctx, r)
}

// StopLeader asks the controller that works to stop, and starts it again.
func (c *Cluster) StopLeader(ctx context.Context) error {
	r, err := c.leader()
	if err != nil {
		return err
	}
	return errors.Join(r.process.stop(), c.runControl(ctx, r))
}

// RestartEnded starts the replicas of the controller again that have ended by themselves, as kubelet does: one that loses its Lease ends.
func (c *Cluster) RestartEnded(ctx context.Context) (err error) {
	for _, r := range c.controls {
		select {
		case <-r.process.ended:
			err = errors.Join(err, c.runControl(ctx, r))
		default:
		}
	}
	return err
}

// kill ends a process at once and waits until it has ended.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// SignalPlane signals a program of the control plane that was started with it, by its name.
func (c *Cluster) SignalPlane(name string, signal syscall.Signal) error {
	if c.plane == nil || c.plane.PIDs[name] == 0 {
		return fmt.Errorf("no process of '%s' was started here", name)
	}
	return syscall.Kill(c.plane.PIDs[name], signal)
}

// EtcdSocket is the path of the socket that etcd listens on.
func (c *Cluster) EtcdSocket() string { return filepath.Join(c.plane.Logs, "etcd:0") }

// Versions are the programs that run as webhook and as controller.
func (c *Cluster) Versions() (webhook, controller string) {
	return cmp.Or(c.replicas[0].program, "webhook"), cmp.Or(c.controls[0].program, "controller")
}
