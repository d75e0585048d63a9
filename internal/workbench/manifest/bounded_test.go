package manifest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// blanks are a source without an end. They are YAML.
type blanks struct{}

func (blanks) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = ' '
	}
	return len(to), nil
}

// TestReadsAreBounded: a file, a pipe or a server without an end is an error that names it.
func TestReadsAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			_, _ = io.Copy(w, blanks{})
			return
		}
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	defer func(limit time.Duration) { downloadLimit = limit }(downloadLimit)
	const tooLarge = "has more than 64 MiB"
	for name, want := range map[string]string{
		"/dev/zero": "/dev/zero " + tooLarge, "-": StandardInput + " " + tooLarge, server.URL + "/endless": "/endless " + tooLarge,
		server.URL + "/slow": "the download takes longer than 100ms",
	} {
		downloadLimit = time.Minute
		if strings.HasSuffix(name, "/slow") {
			downloadLimit = 100 * time.Millisecond
		}
		found, err := Files{Stdin: blanks{}}.ReadNames([]string{name})
		if err != nil || len(found) != 1 || found[0].Fault == nil || !strings.Contains(found[0].Fault.Error(), want) {
			t.Errorf("%s: %v, %d objects, want the fault '%s'", name, err, len(found), want)
			if len(found) == 1 {
				t.Error(found[0].Fault)
			}
		}
	}
}
