package subresource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"
	"github.com/kilnvm/kiln/internal/stream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// console, vnc and portforward are WebSockets. For console and vnc, the launcher is the server of the WebSocket, and this process copies bytes. For
// portforward, this process is the server, and connects to the address of the pod, which is also the address of the guest.

func (a *API) serveConsole(w http.ResponseWriter, r *http.Request, c call) {
	vmi, err := c.readVMI(r.Context(), a.Live)
	if err == nil {
		err = judgeConsole(vmi)
	}
	if err != nil {
		writeAnswer(w, r, reply{}, err)
		return
	}
	defer a.Open.countOpen("console")()
	a.Guests.Stream(w, r, vmi, "console")
}

func judgeConsole(vmi *v1.VirtualMachineInstance) error {
	switch attach := vmi.Spec.Domain.Devices.AutoattachSerialConsole; {
	case !ptr.Deref(attach, true):
		return apierrors.NewBadRequest("No serial consoles are present: spec.domain.devices.autoattachSerialConsole is false")
	case vmi.Status.Phase == v1.Failed:
		return vmiConflict(vmi.Name, "VMI is in failed status")
	case vmi.Status.Phase != v1.Running:
		return apierrors.NewBadRequest(fmt.Sprintf("VMI is not running: its phase is '%s'", vmi.Status.Phase))
	}
	return nil
}

func (a *API) serveVNC(w http.ResponseWriter, r *http.Request, c call) {
	vmi, err := c.readVMI(r.Context(), a.Live)
	if err == nil {
		err = judgeDisplay(vmi)
	}
	preserve := false
	if text := r.URL.Query().Get("preserveSession"); err == nil && text != "" {
		if preserve, err = strconv.ParseBool(text); err != nil {
			err = apierrors.NewBadRequest(fmt.Sprintf("preserveSession is '%.20s', want true or false", text))
		}
	}
	if err != nil {
		writeAnswer(w, r, reply{}, err)
		return
	}
	defer a.Open.countOpen("vnc")()
	path := "vnc"
	if preserve {
		path += "?preserveSession=true"
	}
	a.Guests.Stream(w, r, vmi, path)
}

func judgeDisplay(vmi *v1.VirtualMachineInstance) error {
	switch attach := vmi.Spec.Domain.Devices.AutoattachGraphicsDevice; {
	case !ptr.Deref(attach, true):
		return apierrors.NewBadRequest("No graphics devices are present: spec.domain.devices.autoattachGraphicsDevice is false")
	case vmi.Status.Phase != v1.Running:
		return apierrors.NewBadRequest(fmt.Sprintf("VMI is not running: its phase is '%s'", vmi.Status.Phase))
	}
	return nil
}

// forwardVMI serves portforward of a VMI, forwardVM serves portforward of a VM.
func (a *API) forwardVMI(w http.ResponseWriter, r *http.Request, c call) {
	vmi, err := c.readVMI(r.Context(), a.Live)
	a.forwardPort(w, r, vmi, err)
}

func (a *API) forwardVM(w http.ResponseWriter, r *http.Request, c call) {
	vm, err := c.readVM(r.Context(), a.Live)
	if err == nil && !vm.Status.Created {
		err = vmConflict(c.name, "VMI is not started")
	}
	var vmi *v1.VirtualMachineInstance
	if err == nil {
		vmi, err = c.readVMI(r.Context(), a.Live)
	}
	if err == nil && !metav1.IsControlledBy(vmi, vm) {
		err = vmConflict(c.name, "the VMI of this name does not belong to the VM")
	}
	a.forwardPort(w, r, vmi, err)
}

// forwardPort connects the caller with a port of the guest, or answers with the error if failed is not nil.
func (a *API) forwardPort(w http.ResponseWriter, r *http.Request, vmi *v1.VirtualMachineInstance, failed error) {
	guest, err := net.Conn(nil), failed
	if err == nil {
		guest, err = dialGuest(r, a.Guests, vmi)
	}
	if err != nil {
		writeAnswer(w, r, reply{}, err)
		return
	}
	defer a.Open.countOpen("portforward")()
	stream.Relay(w, r, guest, stream.ForwardStall)
}

// dialGuest opens a connection to the port of the guest that the path of the request names. It uses the address of the pod as kubelet reports it, because the
// guest agent may report any address, and this process reaches addresses that its caller does not.
func dialGuest(r *http.Request, guests Guests, vmi *v1.VirtualMachineInstance) (net.Conn, error) {
	_, path, _ := strings.Cut(r.URL.Path, "/portforward/")
	text, protocol, given := strings.Cut(path, "/")
	if !given {
		protocol = "tcp"
	}
	port, err := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil || port == 0:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the port is '%.20s', want 1 to 65535", text))
	case protocol != "tcp" && protocol != "udp":
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the protocol is '%.20s', want tcp or udp", protocol))
	case hasCondition(vmi, v1.VirtualMachineInstancePaused):
		return nil, vmiConflict(vmi.Name, "VMI is paused")
	case vmi.Status.Phase != v1.Running:
		return nil, vmiConflict(vmi.Name, "VMI is not running: its phase is '%s'", vmi.Status.Phase)
	}
	address, err := guests.Address(r.Context(), vmi)
	if err != nil {
		return nil, err
	}
	if !websocket.IsWebSocketUpgrade(r) {
		return nil, errNoUpgrade
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, protocol, net.JoinHostPort(address, text))
	var refusal *net.OpError
	if errors.As(err, &refusal) {
		return nil, apierrors.NewInternalError(fmt.Errorf("dialing VM: %w", err)) // KubeVirt's status code and words
	}
	return conn, err
}
