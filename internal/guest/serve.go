package guest

import (
	"context"
	"net"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/launcherserver"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Package launcherserver serves the console, the display and the actions of a guest that runs. A guest runs without that server, too, so failures here are
// logged.

// serve listens until the context ends, and reports the certificate of the server. It does nothing without Actions.
func (g *Guest) serve(ctx context.Context, work *sync.WaitGroup) *launcherserver.Server {
	if g.Actions == nil {
		return nil
	}
	log := ctrl.LoggerFrom(ctx)
	server, err := launcherserver.New(g.Actions, g.Channel.clients)
	var listener net.Listener
	if err == nil {
		listener, err = g.listen()
	}
	if err != nil {
		log.Error(err, "console, display and actions are not served")
		return nil
	}
	work.Go(func() { _ = server.Run(ctx, listener) }) // which has logged its error
	digest := server.Certificate()
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) { status.ServerCertificate = digest })
	return server
}

// listen opens the port of launchers, or what a test has opened.
func (g *Guest) listen() (net.Listener, error) {
	if g.Listen != nil {
		return g.Listen()
	}
	return launcherserver.Listen()
}

// clients are those that the GuestPod names now.
func (c *Channel) clients() *v1alpha1.GuestPodClients {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod == nil {
		return nil
	}
	return c.pod.Spec.Clients
}

// served is the guest of a start, as the server has it.
func (r run) served() launcherserver.Guest {
	return launcherserver.Guest{Owner: r.owner, Console: r.console, Display: r.display}
}
