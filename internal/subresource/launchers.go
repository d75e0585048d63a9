package subresource

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guestagent"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/launcherserver"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Launchers calls the launchers in the pods of guests. Both sides show a certificate: a launcher answers only this process, and this process calls only the
// launcher whose certificate is in the GuestPod of the VMI. A tenant may control a launcher, so its answers are bounded, and its headers are not passed on.
type Launchers struct {
	// Live reads VMIs' GuestPods and pods.
	Live client.Reader
	// Port is the TCP port of launchers; 0 stands for v1alpha1.LauncherPort.
	Port int
	// Certificate returns the client certificate of this process.
	Certificate func() (*tls.Certificate, error)
}

const (
	// dialLimit bounds connecting to a guest or a launcher.
	dialLimit = 10 * time.Second
	// actionLimit bounds an action: an agent may take its time to freeze filesystems.
	actionLimit = 30 * time.Second
	// largestAnswer bounds a launcher's answer, in bytes. A list in an answer has at most some 256 items.
	largestAnswer = 1 << 20
	// mostElements bounds the commas in an answer, because '{}' of two bytes takes some hundred bytes of memory.
	mostElements = 1 << 14
	// largestStatistics and mostStatistics are the same bounds for statistics, many of which are read at once. A guest of 512 vCPUs and 100 disks has 3,000
	// elements.
	largestStatistics = 128 << 10
	mostStatistics    = 1 << 12
	// longestWords bounds the text of a launcher's error, in bytes.
	longestWords = 1024
)

// errNoServer returns the error of a guest whose launcher cannot be called.
func errNoServer(vmi *v1.VirtualMachineInstance, why string) error {
	return vmiConflict(vmi.Name, "its launcher cannot be called: %s", why)
}

// Address returns the IP address of the pod in which the guest runs.
func (l *Launchers) Address(ctx context.Context, vmi *v1.VirtualMachineInstance) (string, error) {
	_, at, err := l.findPod(ctx, vmi)
	return at, err
}

// findPod returns the GuestPod of a VMI and the IP address of its pod. Kiln's controller writes the spec of a GuestPod, and kubelet the address of a pod: a
// tenant can forge neither.
func (l *Launchers) findPod(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1alpha1.GuestPod, string, error) {
	guest := &v1alpha1.GuestPod{}
	err := l.Live.Get(ctx, client.ObjectKeyFromObject(vmi), guest)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", errNoServer(vmi, "the guest does not run in a pod of Kiln's")
	case err != nil:
		return nil, "", err
	case guest.Spec.VMIUID != vmi.UID:
		return nil, "", errNoServer(vmi, "its GuestPod belongs to an earlier VMI")
	}
	found := &corev1.Pod{}
	err = l.Live.Get(ctx, types.NamespacedName{Namespace: vmi.Namespace, Name: pod.Name(vmi.Name)}, found)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, "", err
	case err != nil || found.UID != guest.Spec.PodUID:
		return nil, "", errNoServer(vmi, "its pod is gone")
	case found.Status.Phase != corev1.PodRunning: // another pod may have the address of one that has ended
		return nil, "", errNoServer(vmi, "its pod does not run")
	case found.Status.PodIP == "":
		return nil, "", errNoServer(vmi, "its pod has no IP address yet")
	}
	return guest, found.Status.PodIP, nil
}

// connectionTo returns the URL of a launcher, and a transport that connects only to this launcher.
func (l *Launchers) connectionTo(ctx context.Context, vmi *v1.VirtualMachineInstance) (*url.URL, *http.Transport, error) {
	guest, at, err := l.findPod(ctx, vmi)
	if err != nil {
		return nil, nil, err
	}
	digest := guest.Status.ServerCertificate
	if digest == "" {
		return nil, nil, errNoServer(vmi, "it serves no console: it has not started yet, or is of an earlier version of Kiln")
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, // HTTP/2 has no upgrade
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return l.Certificate() },
		InsecureSkipVerify:   true, //nolint:gosec // VerifyConnection compares the certificate itself, which no authority has signed
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || launcherserver.DigestOf(state.PeerCertificates[0]) != digest {
				return errors.New("the certificate is not the one in the launcher's GuestPod")
			}
			return nil
		},
	}
	transport := &http.Transport{
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialLauncher(ctx, address, config)
		},
		DisableKeepAlives: true, ResponseHeaderTimeout: actionLimit, MaxResponseHeaderBytes: 16 << 10, DisableCompression: true,
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(at, strconv.Itoa(cmp.Or(l.Port, v1alpha1.LauncherPort)))}, transport, nil
}

// Put requests an action of the launcher.
func (l *Launchers) Put(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, body any) error {
	_, err := l.sendRequest(ctx, vmi, http.MethodPut, path, body, largestAnswer)
	return err
}

// Get reads a report of the launcher into answer.
func (l *Launchers) Get(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, answer any) error {
	return l.getBounded(ctx, vmi, path, bounds{largestAnswer, mostElements}, answer)
}

// Statistics reads libvirt's counters of the guest from the launcher.
func (l *Launchers) Statistics(ctx context.Context, vmi *v1.VirtualMachineInstance) (counted hypervisor.Statistics, err error) {
	err = l.getBounded(ctx, vmi, launcherserver.StatisticsPath, bounds{largestStatistics, mostStatistics}, &counted)
	return counted, err
}

// bounds are the largest size of an answer, in bytes, and its largest number of commas.
type bounds struct{ bytes, elements int }

func (l *Launchers) getBounded(ctx context.Context, vmi *v1.VirtualMachineInstance, path string, most bounds, answer any) error {
	text, err := l.sendRequest(ctx, vmi, http.MethodGet, path, nil, most.bytes)
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte{','}) > most.elements {
		return vmiConflict(vmi.Name, "its launcher's answer has more than %d elements", most.elements)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return vmiConflict(vmi.Name, "its launcher's answer cannot be read: %w", err)
	}
	return nil
}

// sendRequest sends a request and returns the body of an answer with status 200. most is the largest size of the body, in bytes.
func (l *Launchers) sendRequest(ctx context.Context, vmi *v1.VirtualMachineInstance, verb, path string, body any, most int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, actionLimit)
	defer cancel()
	at, transport, err := l.connectionTo(ctx, vmi)
	if err != nil {
		return nil, err
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, verb, at.JoinPath(path).String(), bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	request.Header.Set(launcherserver.GuestHeader, string(vmi.UID))
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, unreachableError(vmi, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, launcherError(vmi, response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, unreachableError(vmi, err)
	case len(text) > most:
		return nil, vmiConflict(vmi.Name, "its launcher answers more than %d bytes", most)
	}
	return text, nil
}

// unreachableError names the usual cause, because the VMI itself shows no fault.
func unreachableError(vmi *v1.VirtualMachineInstance, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("the launcher of VMI '%s' cannot be reached (does a NetworkPolicy of the namespace allow TCP port %d from "+
		"Kiln's namespace?): %w", vmi.Name, v1alpha1.LauncherPort, err))
}

// launcherError returns the error in a launcher's answer. It keeps the status codes that launchers use, and replaces others by 500.
func launcherError(vmi *v1.VirtualMachineInstance, response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, longestWords))
	words := guestagent.Text(string(text), longestWords)
	switch response.StatusCode {
	case http.StatusConflict, http.StatusMisdirectedRequest:
		return vmiConflict(vmi.Name, "%s", words)
	case http.StatusNotFound, http.StatusNotImplemented:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented",
			Message: "the launcher of this guest does not serve it: " + words}}
	}
	return apierrors.NewInternalError(fmt.Errorf("the launcher of VMI '%s' answers: %s", vmi.Name, words))
}
