package site

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser serves a folder to Chromium, once at the root of the server and once at a deep path, and runs scripts of testdata in it.
type browser struct {
	*testing.T
	handler http.Handler

	lock    sync.Mutex
	missing []string // what was asked for and is not there
}

// deep is a path below which the folder is served, too.
const deep = "/some/deep/path/"

// serve serves a folder, and below /-/ the folder testdata.
func serve(t *testing.T, dir string) *browser {
	t.Helper()
	b := &browser{T: t}
	files := http.FileServer(http.Dir(dir))
	mux := http.NewServeMux()
	mux.Handle("/", b.noteMissing(files))
	mux.Handle(deep, b.noteMissing(http.StripPrefix(strings.TrimSuffix(deep, "/"), files)))
	mux.Handle("/-/", http.StripPrefix("/-/", http.FileServer(http.Dir("testdata"))))
	b.handler = mux
	return b
}

func (b *browser) noteMissing(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w}
		files.ServeHTTP(recorder, r)
		if recorder.status == http.StatusNotFound && r.URL.Path != "/favicon.ico" {
			b.lock.Lock()
			defer b.lock.Unlock()
			b.missing = append(b.missing, r.URL.Path)
		}
	})
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// run opens a page of testdata in Chromium, gives it a question, and decodes its answer. The page reads the question from /-/question and posts the answer to
// /-/answer.
func (b *browser) run(page string, question, answer any, patience time.Duration) {
	b.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		b.Fatal("chromium is missing: install Debian's package 'chromium'")
	}
	asked, err := json.Marshal(question)
	if err != nil {
		b.Fatal(err)
	}
	answers := make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.Handle("/", b.handler)
	mux.HandleFunc("GET /-/question", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(asked) })
	mux.HandleFunc("POST /-/answer", func(_ http.ResponseWriter, r *http.Request) {
		if raw, err := io.ReadAll(r.Body); err == nil {
			select {
			case answers <- raw:
			default:
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	home := b.TempDir()
	command := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--user-data-dir="+home, server.URL+"/-/"+page)
	command.Env = append(os.Environ(), "HOME="+home)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	command.Stderr = log
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() { // Chromium's processes are in its group, and write into its home until they end
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		for range 100 {
			if errors.Is(syscall.Kill(-command.Process.Pid, 0), syscall.ESRCH) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	select {
	case raw := <-answers:
		if err := json.Unmarshal(raw, answer); err != nil {
			b.Fatalf("%v: %s", err, raw)
		}
	case err := <-ended:
		logged, _ := os.ReadFile(log.Name())
		b.Fatalf("chromium has ended: %v\n%s", err, logged)
	case <-ctx.Done():
		logged, _ := os.ReadFile(log.Name())
		b.Fatalf("%s has not answered within %s\n%s", page, patience, logged)
	}
}
