package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

type options struct {
	bin   string
	dir   string
	users []string
	// audited is the group whose members' requests are recorded; empty records none.
	audited string
	// restart starts what has ended again, as a machine's supervisor does.
	restart bool
}

// ready is the line of JSON on standard output.
type ready struct {
	// Server is the URL of the API server, https://127.0.0.1:PORT.
	Server string `json:"server"`
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig"`
	// Users are the paths of the kubeconfigs asked for with --user, by name of the user.
	Users map[string]string `json:"users,omitempty"`
	// CA is the path of the certificate that signed the API server's.
	CA string `json:"ca"`
	// Bin is the directory of etcd, kube-apiserver, kube-controller-manager and kubectl.
	Bin string `json:"bin"`
	// Logs is the directory of the logs, NAME.log each. They are removed at the end.
	Logs string `json:"logs"`
	// PIDs are the process ids, by name of the binary.
	PIDs map[string]int `json:"pids"`
}

var errInputEnded = errors.New("standard input ended")

// runControlPlane starts a control plane, tells when it is ready, waits for the end and cleans up.
func runControlPlane(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errInputEnded)
	}()
	bin, err := plane.findOrBuild(ctx, o.bin)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	cp := &controlPlane{bin: bin, dir: o.dir, state: filepath.Join(o.dir, "state"), audited: o.audited}
	defer func() { err = errors.Join(err, cp.close()) }()
	if err := cp.prepareDir(o.users); err != nil {
		return err
	}
	started := time.Now()
	if err := cp.start(ctx); err != nil {
		return err
	}
	printProgress("ready at %s after %s", cp.ready.Server, time.Since(started).Round(100*time.Millisecond))
	if err := json.NewEncoder(os.Stdout).Encode(cp.ready); err != nil {
		return fmt.Errorf("telling that the control plane is ready: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			printProgress("%v; stopping", context.Cause(ctx))
			return nil
		case p := <-cp.group.Ended:
			if !o.restart {
				return p.Died()
			}
			printProgress("%v", p.Died())
			if _, err := cp.group.Again(p); err != nil {
				return err
			}
		}
	}
}
