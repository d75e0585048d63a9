package vmcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/stream"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// escape is the key that ends a console: Ctrl-], as in telnet and virtctl.
const escape = 0x1d

// ConsoleCommand returns 'console'.
func ConsoleCommand(s *cmdutil.Session) *cobra.Command {
	o := &vmAccess{cmdutil.NewPrinter(s)}
	return &cobra.Command{
		Use: "console NAME", Short: "Connect to the serial console of a VM", Args: cobra.ExactArgs(1),
		Long: "Connect to the serial console of a VM, until Ctrl-] or the end of standard input. A VM has one console:\n" +
			"a new client disconnects the client before it. The cluster must have Kiln's API server of subresources, or KubeVirt's.",
		Example: "  kubectl kiln console web -n shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			guest, err := o.dialSubresource(cmd.Context(), args[0], "console", nil)
			if err != nil {
				return err
			}
			defer guest.Close()
			return o.attachConsole(guest)
		},
	}
}

// dialSubresource opens a stream to a subresource of a VMI.
func (o *vmAccess) dialSubresource(ctx context.Context, arg, subresource string, query url.Values) (net.Conn, error) {
	name, namespace, err := o.parseMachine(arg)
	if err != nil {
		return nil, err
	}
	_, access, err := o.subresourceClient()
	if err != nil {
		return nil, err
	}
	guest, err := stream.Dial(access, pathOf(namespace, "virtualmachineinstances", name, subresource), query)
	return guest, o.explainStopped(ctx, namespace, name, explainNotServed(err))
}

// requireRunning returns an error if the VM does not run. It returns nil if the user may not read the VMI: then connecting fails.
func (o *vmAccess) requireRunning(ctx context.Context, arg string) error {
	name, namespace, err := o.parseMachine(arg)
	if err != nil {
		return err
	}
	reader, err := o.Client()
	if err != nil {
		return err
	}
	err = reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &v1.VirtualMachineInstance{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return o.explainStopped(ctx, namespace, name, err)
}

// attachConsole copies between the terminal and the console. It sets a terminal to raw mode, because the guest echoes, and must receive Ctrl-C.
func (o *vmAccess) attachConsole(guest net.Conn) error {
	if in, is := o.In.(*os.File); is && term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		fmt.Fprint(o.ErrOut, "Connected. The escape key is Ctrl-].\r\n")
	}
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(o.Out, guest)
		ended <- err
	}()
	go func() { ended <- copyInput(guest, o.In) }()
	return <-ended
}

// copyInput copies in to guest, until the escape key or the end of in.
func copyInput(guest io.Writer, in io.Reader) error {
	buffer := make([]byte, 4096)
	for {
		n, err := in.Read(buffer)
		text, escaped := untilEscape(buffer[:n])
		if _, failed := guest.Write(text); failed != nil {
			return failed
		}
		switch {
		case escaped, errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// untilEscape returns the text before the escape key, and whether the text contains the key.
func untilEscape(text []byte) ([]byte, bool) {
	for i, key := range text {
		if key == escape {
			return text[:i], true
		}
	}
	return text, false
}

// VncCommand returns 'vnc'.
func VncCommand(s *cmdutil.Session) *cobra.Command {
	o := &vmAccess{cmdutil.NewPrinter(s)}
	cmd := &cobra.Command{
		Use: "vnc NAME", Short: "Serve the display of a VM to a viewer on this machine", Args: cobra.ExactArgs(1),
		Long: "Serve the display of a VM at a port of this machine, until Ctrl-C: connect a VNC viewer to it. Each viewer has its own\n" +
			"connection; a new one takes the display over. The cluster must have Kiln's API server of subresources, or KubeVirt's.",
		Example: "  kubectl kiln vnc web -n shop --port 5900",
	}
	port := cmd.Flags().Uint16("port", 0, "port of 127.0.0.1 to serve at; 0 chooses one")
	preserve := cmd.Flags().Bool("preserve-session", false, "fail if somebody is connected, instead of taking over")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query := url.Values{}
		if *preserve {
			query.Set("preserveSession", "true")
		}
		if err := o.requireRunning(cmd.Context(), args[0]); err != nil { // otherwise it fails only when a viewer connects
			return err
		}
		listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(*port))))
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "serving the display at %s\n", listener.Addr())
		return o.serveDisplay(cmd.Context(), listener, func() (net.Conn, error) { return o.dialSubresource(cmd.Context(), args[0], "vnc", query) })
	}
	return cmd
}

// serveDisplay connects each viewer to its own stream, until the context ends. It fails if a stream cannot be opened, because later ones would fail, too.
func (o *vmAccess) serveDisplay(ctx context.Context, listener net.Listener, open func() (net.Conn, error)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	context.AfterFunc(ctx, func() { listener.Close() })
	var work sync.WaitGroup
	defer work.Wait()
	for {
		viewer, err := listener.Accept()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		}
		work.Go(func() {
			defer viewer.Close()
			guest, err := open()
			if err != nil {
				end(err)
				return
			}
			joinConnections(ctx, viewer, guest)
		})
	}
}

// joinConnections copies between two connections until one of them ends, or the context does.
func joinConnections(ctx context.Context, a, b net.Conn) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	context.AfterFunc(ctx, func() {
		a.Close()
		b.Close()
	})
	var work sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		work.Go(func() {
			defer end()
			_, _ = io.Copy(pair[0], pair[1])
		})
	}
	work.Wait()
}
