// Command witness says what the machine has of its pods, by HTTP: GET /CGROUP, where CGROUP is the root of the node's cgroups. Its container shares the PID
// namespace of the machine and is privileged, so that it has the machine's cgroups.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/cgroup2/look"
)

func main() {
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, err := look.At(strings.TrimPrefix(r.URL.Path, "/"))
		if err == nil {
			err = json.NewEncoder(w).Encode(seen)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	fmt.Fprintln(os.Stderr, "witness:", server.ListenAndServe())
	os.Exit(1)
}
