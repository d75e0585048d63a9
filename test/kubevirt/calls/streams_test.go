package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	kvcorev1 "kubevirt.io/client-go/kubevirt/typed/core/v1"
)

// talk serves each request by a websocket.
func talk(t *testing.T, with func(conn *websocket.Conn)) *server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := kvcorev1.NewUpgrader().Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		with(conn)
	})
}

func say(t *testing.T, conn *websocket.Conn, text string) {
	t.Helper()
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte(text)); err != nil {
		t.Error(err)
	}
}

// hang keeps a connection until the client leaves.
func hang(conn *websocket.Conn) {
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			return
		}
	}
}

// streamResult runs one call of a stream.
func streamResult(t *testing.T, arguments ...string) (streamed, Result) {
	t.Helper()
	lines := printed(t, arguments...)
	if len(lines) != 1 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	var answer streamed
	result := Result{Answer: &answer}
	if err := json.Unmarshal([]byte(lines[0]), &result); err != nil {
		t.Fatalf("%v: %s", err, lines[0])
	}
	return answer, result
}

// TestStreams: each stream has the path of KubeVirt's API.
func TestStreams(t *testing.T) {
	s := talk(t, func(conn *websocket.Conn) { say(t, conn, "RFB 003.008\n") })
	const vm, vmi = subresources + "/namespaces/shop/virtualmachines/web/", subresources + "/namespaces/shop/virtualmachineinstances/web/"
	want := map[string]string{
		"console": vmi + "console", "vnc": vmi + "vnc?preserveSession=false", "usbredir": vmi + "usbredir", "vsock=22": vmi + "vsock?port=22&tls=true",
		"portforward=80": vm + "portforward/80", "portforward=53/udp": vm + "portforward/53/udp", "vmi-portforward=80": vmi + "portforward/80",
	}
	tested := map[string]bool{}
	for call, path := range want {
		answer, result := streamResult(t, "--until", "\n", "shop", "web", call)
		if diff := cmp.Diff(streamed{"RFB 003.008\n", 12, "until"}, answer); diff != "" || result.Error != "" {
			t.Errorf("%s: %+v: -want +got\n%s", call, result, diff)
		}
		if diff := cmp.Diff([]string{"GET " + path}, s.taken()); diff != "" {
			t.Errorf("%s: -want +got\n%s", call, diff)
		}
		name, _, _ := strings.Cut(call, "=")
		tested[name] = true
	}
	for name := range ofStreams {
		if !tested[name] {
			t.Errorf("%s has no test", name)
		}
	}
}

// TestConsole: what is sent arrives as it is, and reading ends by the text, by the other side, by the time limit.
func TestConsole(t *testing.T) {
	for _, test := range []struct {
		name      string
		arguments []string
		guest     func(conn *websocket.Conn)
		want      streamed
		fails     bool
	}{
		{"a text that comes in two messages", []string{"--send", "root\n", "--until", "Password: "}, func(conn *websocket.Conn) {
			_, line, err := conn.ReadMessage()
			if err != nil {
				t.Error(err)
			}
			say(t, conn, string(line)+"\r\nPass")
			say(t, conn, "word: and more")
			hang(conn)
		}, streamed{"root\n\r\nPassword: ", 25, "until"}, false},
		{"the other side ends", []string{"--until", "login:"}, func(conn *websocket.Conn) {
			say(t, conn, "bye")
			farewell := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			if err := conn.WriteMessage(websocket.CloseMessage, farewell); err != nil {
				t.Error(err)
			}
			hang(conn)
		}, streamed{"bye", 3, "closed"}, false},
		{"a connection that breaks", nil, func(conn *websocket.Conn) { say(t, conn, "by") }, streamed{"by", 2, "error"}, true},
		{"the time limit", []string{"--timeout", "2s"}, func(conn *websocket.Conn) {
			say(t, conn, "boot")
			hang(conn)
		}, streamed{"boot", 4, "time"}, false},
	} {
		talk(t, test.guest)
		answer, result := streamResult(t, append(test.arguments, "shop", "web", "console")...)
		if diff := cmp.Diff(test.want, answer); diff != "" || (result.Error != "") != test.fails || result.Code != 0 {
			t.Errorf("%s: error %q, code %d: -want +got\n%s", test.name, result.Error, result.Code, diff)
		}
	}
}

// TestFlood: of a guest that writes without end, the last 64 KiB are kept.
func TestFlood(t *testing.T) {
	talk(t, func(conn *websocket.Conn) {
		for text := strings.Repeat("0123456789abcdef", 512); conn.WriteMessage(websocket.BinaryMessage, []byte(text)) == nil; {
		}
	})
	answer, result := streamResult(t, "--timeout", "2s", "--until", "no such text", "shop", "web", "console")
	if len(answer.Read) != kept || answer.Bytes <= kept || answer.Ended != "time" || result.Error != "" {
		t.Errorf("%d bytes of %d, ended by %q, error %q", len(answer.Read), answer.Bytes, answer.Ended, result.Error)
	}
}

// TestStreamRefused: a refusal in the place of a websocket has its status.
func TestStreamRefused(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusConflict, http.StatusNotImplemented, http.StatusOK} {
		serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"no console"}`, status)
		})
		answer, result := streamResult(t, "shop", "web", "console")
		if result.Error == "" || answer.Ended != "" || status != http.StatusOK && result.Code != status {
			t.Errorf("%d: %+v", status, result)
		}
		if status != http.StatusOK && !strings.Contains(result.Error, "no console") {
			t.Errorf("%d: error %q", status, result.Error)
		}
	}
}

// TestSilence: a server that says nothing does not hold the program.
func TestSilence(t *testing.T) {
	release := make(chan struct{})
	serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) }) // before the server's own end, which waits for its requests
	for _, name := range []string{"console", "start", "server-version"} {
		begun := time.Now()
		if _, result := streamResult(t, "--timeout", "300ms", "shop", "web", name); result.Error == "" || time.Since(begun) > 10*time.Second {
			t.Errorf("%+v after %v", result, time.Since(begun))
		}
	}
}
