// Command probe is the container of tests. It is static and the only file of its image: it serves what its pod is, fetches from others, reads files, answers
// admission reviews, takes memory, and says what a launcher finds in its pod.
package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "serve":
		return serveName("")
	case len(args) == 2 && args[0] == "serve":
		return serveName(args[1])
	case len(args) == 2 && args[0] == "fetch":
		return fetchURL(args[1])
	case len(args) == 2 && args[0] == "cat":
		text, err := os.ReadFile(args[1])
		fmt.Print(string(text))
		return err
	case len(args) == 2 && args[0] == "touch":
		return os.WriteFile(args[1], nil, 0o600)
	case len(args) == 1 && args[0] == "eat":
		return eatMemory()
	case len(args) > 0 && args[0] == "guest":
		return reportGuest(args[1:])
	case len(args) == 1 && args[0] == "isolate":
		return isolate()
	}
	return fmt.Errorf("arguments %q must be: serve [DIRECTORY OF tls.crt AND tls.key], fetch URL, cat FILE, guest DEVICE..., eat, or touch FILE", args)
}

// eatMemory takes memory until the kernel ends the process.
func eatMemory() error {
	for all := [][]byte{}; ; {
		page := make([]byte, 1<<20)
		for i := range page {
			page[i] = 1
		}
		all = append(all, page)
		if len(all) > 1<<10 {
			return errors.New("there is a GiB, and no limit")
		}
	}
}

// serveName answers with the name of the pod, over TLS where a certificate is given.
func serveName(certificates string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s to %s\n", name, r.RemoteAddr)
	})
	http.HandleFunc("/admit", func(w http.ResponseWriter, r *http.Request) {
		if err := refuseReview(w, r, "refused by pod "+name); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	fmt.Println("serving as", name)
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second}
	if certificates == "" {
		return server.ListenAndServe()
	}
	server.Addr = ":8443"
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	return server.ListenAndServeTLS(certificates+"/tls.crt", certificates+"/tls.key")
}

// refuseReview answers an admission review with no, and why.
func refuseReview(w io.Writer, r *http.Request, message string) error {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return err
	}
	if review.Request == nil {
		return fmt.Errorf("a review without a request")
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: message}}
	return json.NewEncoder(w).Encode(review)
}

func fetchURL(url string) error {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
