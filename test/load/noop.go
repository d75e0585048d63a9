package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/load/creates"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	v1 "kubevirt.io/api/core/v1"
)

// annotations is the patch of a VM by webhooks that add what Kiln adds: identity and pins. The VMs of the measurements have no annotations.
const annotations = `[{"op": "add", "path": "/metadata/annotations", "value": {
  "` + v1alpha1.AnnotationIdentity + `": "705ab4f5-6393-4b8c-9c1d-42010a800002",
  "` + v1alpha1.AnnotationPins + `": "{\"instancetype\":\"load.nano-aldhlwdhsqoyomgbcj3gzwep4b\",\"preference\":\"load-ehtsgmucie35wlb7j6cwilji4i\"}"
}}]`

// serveNoop is the process of the webhooks that do nothing. It allows every request, and reads nothing of it but the UID that the answer must repeat.
// It prints its address, and ends with its standard input.
func serveNoop(args []string) error {
	flags := flag.NewFlagSet("noop", flag.ExitOnError)
	dir := flags.String("cert-dir", "", "folder of tls.crt and tls.key")
	annotate := flags.Bool("annotate", false, "add annotations to new VMs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var mutated, validated atomic.Int64
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/count" {
			fmt.Fprintf(w, "%d", min(mutated.Load(), validated.Load()))
			return
		}
		patch := ""
		if strings.Contains(r.URL.Path, "validate") {
			validated.Add(1)
		} else {
			mutated.Add(1)
			if *annotate {
				patch = annotations
			}
		}
		allowRequest(w, r, patch)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	err = server.ServeTLS(listener, filepath.Join(*dir, "tls.crt"), filepath.Join(*dir, "tls.key"))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// allowRequest allows a request, with a patch unless it is empty.
func allowRequest(w http.ResponseWriter, r *http.Request, patch string) {
	raw, err := io.ReadAll(r.Body)
	var review struct {
		Request struct {
			UID types.UID `json:"uid"`
		} `json:"request"`
	}
	if err = errors.Join(err, json.Unmarshal(raw, &review)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}}
	if patch != "" {
		answer.Response.Patch, answer.Response.PatchType = []byte(patch), new(admissionv1.PatchTypeJSONPatch)
	}
	answer.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// startNoop starts that process, registers it in the place of Kiln's webhooks, and waits until the API server calls both.
func (b *bench) startNoop(ctx context.Context) error {
	dir := filepath.Join(b.Dir, "noop")
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)); err != nil {
		return err
	}
	address := ""
	if b.webhooks, address, err = b.startSelf(ctx, "noop", "--cert-dir", dir, fmt.Sprintf("--annotate=%t", b.annotates)); err != nil {
		return err
	}
	url := "https://" + address
	if err := b.RegisterAt(ctx, url, certificate); err != nil {
		return err
	}
	return b.awaitWebhooksCalled(ctx, url, certificate)
}

// awaitWebhooksCalled creates VMs until both webhooks have been called. API servers read a new configuration a moment after it is stored.
func (b *bench) awaitWebhooksCalled(ctx context.Context, url string, ca []byte) error {
	client, err := clientTrusting(ca)
	if err != nil {
		return err
	}
	kind := creates.Kind{Namespace: "default", Strategy: v1.RunStrategyHalted}
	for i := 0; ; i++ {
		_, err := creates.Run(ctx, b.config, creates.Plan{Total: 1, VM: func(int) *v1.VirtualMachine { return kind.VM(fmt.Sprintf("probe-%d", i)) }})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		response, err := client.Get(url + "/count")
		if err != nil {
			return err
		}
		count, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil || string(count) != "0" {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
