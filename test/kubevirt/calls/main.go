// Command calls has kubevirt.io/client-go call subresources of a VM and its VMI, as a program of others would, and prints what came of each.
//
//	KUBECONFIG=FILE calls [flags] NAMESPACE NAME CALL...
//
// The calls are made one after another. For each, one line of JSON is printed when it has ended:
//
//	{"call":"start","error":"...","code":409,"answer":null}
//
// error is the client's error as text, or "". code is the HTTP status of a refusal, or 0: also when no answer came at all. answer is the object that the server
// returned (of screenshot the bytes, in base64), or null for calls that return none, and after an error.
//
// The status of the program is 0 when all calls were made, whatever came of them, and 2 when none was made: a wrong flag, a call that does not exist, a
// kubeconfig that cannot be read.
//
// The calls, by the method of the client (kubecli.KubevirtClient) that they use:
//
//	of VirtualMachine:
//	  start, start-paused, stop, stop-grace=SECONDS, restart, force-restart (grace period 0), expand-spec, addvolume=CLAIM (a disk of bus scsi and a
//	  volume, both of the claim's name), removevolume=NAME, objectgraph, migrate, memorydump=CLAIM, removememorydump, portforward=PORT[/udp],
//	  evacuate-cancel
//	of VirtualMachineInstance:
//	  pause, unpause, freeze[=DURATION], unfreeze, softreboot, reset, guestosinfo, userlist, filesystemlist, console, vnc, screenshot, usbredir, vsock=PORT,
//	  backup, redefine-checkpoint, sev-fetchcertchain, sev-querylaunchmeasurement, sev-setupsession, sev-injectlaunchsecret, and
//	  vmi-addvolume=CLAIM, vmi-removevolume=NAME, vmi-objectgraph, vmi-portforward=PORT[/udp], vmi-evacuate-cancel
//	of ExpandSpec:
//	  expand-vm-spec (of the VM as it is on the server)
//	of ServerVersion:
//	  server-version
//
// console, vnc, usbredir, vsock and portforward open a stream. They write the text of -send (nothing by default), read until the text of -until was seen, the
// other side closes or the time limit passes, and close the stream. vnc sends nothing, and reads the 12 bytes of the RFB banner. Their answer is
//
//	{"read":"...","bytes":1234,"ended":"until"}
//
// ended is "until" (the text was seen; read ends with it), "closed", "time" or "error"; the last one comes with an error, and with what was read before. A
// guest may write without end: read has the last 64 KiB at most, bytes counts all. What is no UTF-8 is replaced, as JSON asks.
//
// Flags:
//
//	-timeout 20s  the time limit of each call
//	-send TEXT    what a stream writes, as it is: a line needs its "\n"
//	-until TEXT   what ends the reading of a stream
//	-dry-run      the calls that have options with dryRun say [All]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/client-go/kubecli"
	kvcorev1 "kubevirt.io/client-go/kubevirt/typed/core/v1"
)

func main() {
	if err := runCalls(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "calls:", err)
		os.Exit(2)
	}
}

// Result is a printed line.
type Result struct {
	Call   string `json:"call"`
	Error  string `json:"error"`
	Code   int    `json:"code"`
	Answer any    `json:"answer"`
}

// target is what all calls of a command line share.
type target struct {
	client          kubecli.KubevirtClient
	namespace, name string
	timeout         time.Duration
	send, until     string
	dryRun          []string
}

func runCalls(ctx context.Context, arguments []string, out io.Writer) error {
	var t target
	flags := flag.NewFlagSet("calls", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says what is wrong, the comment of the package what is right
	flags.DurationVar(&t.timeout, "timeout", 20*time.Second, "the time limit of each call")
	flags.StringVar(&t.send, "send", "", "what a stream writes")
	flags.StringVar(&t.until, "until", "", "what ends the reading of a stream")
	dryRun := flags.Bool("dry-run", false, "the calls that have options with dryRun say [All]")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() < 3 {
		return errors.New("want NAMESPACE, NAME and calls")
	}
	if *dryRun {
		t.dryRun = []string{metav1.DryRunAll}
	}
	t.namespace, t.name = flags.Arg(0), flags.Arg(1)
	todo, err := parseCalls(flags.Args()[2:])
	if err != nil {
		return err
	}
	// Without the variable the client would look for an account of a pod.
	file := os.Getenv("KUBECONFIG")
	if file == "" {
		return errors.New("KUBECONFIG is not set")
	}
	if t.client, err = kubecli.GetKubevirtClientFromFlags("", file); err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	for _, one := range todo {
		if err := lines.Encode(t.resultOf(ctx, one)); err != nil {
			return err
		}
	}
	return nil
}

// call is one of the command line: its text, its function, and what stands behind the equals sign.
type call struct {
	text, argument string
	made           made
}

func parseCalls(texts []string) ([]call, error) {
	var todo []call
	for _, text := range texts {
		name, argument, given := strings.Cut(text, "=")
		it, exists := calls[name]
		switch {
		case !exists:
			return nil, fmt.Errorf("there is no call %q", name)
		case given && it.argument == nothing, !given && it.argument == something:
			return nil, fmt.Errorf("call %q has an argument that it does not take, or lacks one", text)
		}
		todo = append(todo, call{text, argument, it.made})
	}
	return todo, nil
}

func (t target) resultOf(ctx context.Context, one call) Result {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	answer, err := one.made(ctx, t, one.argument)
	result := Result{Call: one.text, Answer: answer}
	if err == nil {
		return result
	}
	result.Error, result.Code = err.Error(), statusCode(err)
	if _, is := answer.(*streamed); !is {
		result.Answer = nil // the client returns empty objects beside an error
	}
	return result
}

// statusCode returns the HTTP status of a refusal. Streams have an error of their own for what the server answers in the place of a websocket.
func statusCode(err error) int {
	var stream *kvcorev1.AsyncSubresourceError
	if errors.As(err, &stream) {
		return stream.GetStatusCode()
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}
