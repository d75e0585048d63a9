package guest

import (
	"context"
	"net"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/launcherserver"
	ctrl "sigs.k8s.io/controller-runtime"
)

// startServer starts the server of console, display and actions (package launcherserver), which ends with the context, and reports its certificate. Without
// Actions it returns nil. The guest also runs without this server: errors are only logged.
func (g *Guest) startServer(ctx context.Context, work *sync.WaitGroup) *launcherserver.Server {
	if g.Actions == nil {
		return nil
	}
	log := ctrl.LoggerFrom(ctx)
	server, err := launcherserver.New(g.Actions, g.Channel.allowedClients)
	var listener net.Listener
	if err == nil {
		listener, err = g.openListener()
	}
	if err != nil {
		log.Error(err, "console, display and actions are not served")
		return nil
	}
	work.Go(func() { _ = server.Run(ctx, listener) }) // Run logs its error
	digest := server.Certificate()
	g.Channel.Report(func(status *v1alpha1.GuestPodStatus) { status.ServerCertificate = digest })
	return server
}

// openListener returns the listener of a test if Listen is set, else it opens the port of launchers.
func (g *Guest) openListener() (net.Listener, error) {
	if g.Listen != nil {
		return g.Listen()
	}
	return launcherserver.Listen()
}

// allowedClients returns spec.clients of the current GuestPod; nil if the GuestPod does not exist.
func (c *Channel) allowedClients() *v1alpha1.GuestPodClients {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pod == nil {
		return nil
	}
	return c.pod.Spec.Clients
}

// serverGuest converts a started guest to the type of the server.
func (r startedGuest) serverGuest() launcherserver.Guest {
	return launcherserver.Guest{Owner: r.owner, Console: r.console, Display: r.display}
}
