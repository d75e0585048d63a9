package launcherserver

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"

	"github.com/digitalocean/go-libvirt"
	"github.com/gorilla/websocket"
	"github.com/kilnvm/kiln/internal/stream"
	ctrl "sigs.k8s.io/controller-runtime"
)

// routes returns the handler of all requests. An error is one line of text, from which the client makes a Status.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for path, act := range map[string]func(context.Context, Guest) error{
		"pause":      func(ctx context.Context, g Guest) error { return s.actions.Suspend(ctx, g.Owner) },
		"unpause":    func(ctx context.Context, g Guest) error { return s.actions.Resume(ctx, g.Owner) },
		"reset":      func(ctx context.Context, g Guest) error { return s.actions.Reset(ctx, g.Owner) },
		"softreboot": func(ctx context.Context, g Guest) error { return s.actions.Reboot(ctx, g.Owner) },
		"unfreeze":   s.thawNow,
	} {
		mux.HandleFunc("PUT /"+path, s.requireStarted(func(w http.ResponseWriter, r *http.Request, g Guest) {
			writeAnswer(w, r, act(r.Context(), g), nil)
		}))
	}
	mux.HandleFunc("PUT /freeze", s.requireStarted(s.serveFreeze))
	mux.HandleFunc("GET /guestosinfo", s.requireStarted(s.answerAgentReport(osInfo)))
	mux.HandleFunc("GET /userlist", s.requireStarted(s.answerAgentReport(userList)))
	mux.HandleFunc("GET /filesystemlist", s.requireStarted(s.answerAgentReport(filesystemList)))
	mux.HandleFunc("GET /"+StatisticsPath, s.requireStarted(func(w http.ResponseWriter, r *http.Request, g Guest) {
		counted, err := s.actions.Statistics(r.Context(), g.Owner)
		writeAnswer(w, r, err, counted)
	}))
	mux.HandleFunc("GET /console", s.requireStarted(func(w http.ResponseWriter, r *http.Request, g Guest) { connectSocket(w, r, &s.console, g.Console) }))
	mux.HandleFunc("GET /vnc", s.requireStarted(func(w http.ResponseWriter, r *http.Request, g Guest) { connectSocket(w, r, &s.display, g.Display) }))
	return mux
}

// StatisticsPath is the path at which a launcher answers with hypervisor.Statistics.
const StatisticsPath = "statistics"

// GuestHeader is the header with the UID of the VMI that the caller is authorized for. A tenant may forge the certificate that a launcher reports, and let
// its pod forward connections to the launcher of another tenant. The header makes that launcher refuse the request.
const GuestHeader = "Kiln-Guest"

// requireStarted refuses requests before the guest is started, and requests for another guest.
func (s *Server) requireStarted(do func(http.ResponseWriter, *http.Request, Guest)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, largestBody)
		guest := s.guest.Load()
		switch {
		case guest == nil:
			http.Error(w, "the guest is not started yet", http.StatusConflict)
			return
		case r.Header.Get(GuestHeader) != string(guest.Owner.UID):
			http.Error(w, "the request is for the guest of another VMI", http.StatusMisdirectedRequest)
			return
		}
		do(w, r, *guest)
	}
}

// writeAnswer sends an object or an error.
func writeAnswer(w http.ResponseWriter, r *http.Request, err error, object any) {
	if err != nil {
		ctrl.LoggerFrom(r.Context()).Info("a request about the guest failed", "path", r.URL.Path, "reason", err.Error())
		http.Error(w, err.Error(), statusCode(err))
		return
	}
	if object == nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // an error means that the client has closed the connection
}

// statusCode returns 409 for an error that depends on the state of the guest, and 500 for any other.
func statusCode(err error) int {
	var refused libvirt.Error
	if errors.Is(err, errTaken) || errors.Is(err, errReplaced) || errors.As(err, &refused) && refused.Code == uint32(libvirt.ErrOperationInvalid) {
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// connectSocket connects the client with a socket of QEMU. It disconnects the client before.
func connectSocket(w http.ResponseWriter, r *http.Request, of *session, socket string) {
	if !websocket.IsWebSocketUpgrade(r) { // it would disconnect another client for nothing
		http.Error(w, "connect by WebSocket", http.StatusBadRequest)
		return
	}
	preserve, _ := strconv.ParseBool(r.URL.Query().Get("preserveSession"))
	ctx, release, err := of.takeOver(r.Context(), preserve)
	if err != nil {
		writeAnswer(w, r, err, nil)
		return
	}
	defer release()
	guest, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = errReplaced
	}
	if err != nil {
		writeAnswer(w, r, err, nil)
		return
	}
	stream.Relay(w, r.WithContext(ctx), guest, stream.ConsoleStall)
}
