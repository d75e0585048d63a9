package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/libvirt"
)

// machine is the runtime of one bare machine, this one: a control plane, Kiln's programs as processes, and a private libvirt.
type machine struct {
	*cluster.Cluster
	libvirt *libvirt.Daemon
	dir     string
}

func newMachine(ctx context.Context, root, dir, kubeconfig string) (place, error) {
	c, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: dir, Kubeconfig: kubeconfig, Host: os.Getenv("WEBHOOK_HOST"), Progress: os.Stdout})
	if err != nil {
		return nil, err
	}
	return &machine{Cluster: c, dir: dir}, nil
}

func (m *machine) access() (kubeconfig, programs string) {
	return m.Kubeconfig, filepath.Dir(m.Program("kubectl"))
}

// provide starts a launcher with the image that the example boots.
func (m *machine) provide(ctx context.Context) (err error) {
	if m.libvirt, err = libvirt.Run(ctx); err != nil {
		return err
	}
	volumes := filepath.Join(m.dir, "volumes")
	if _, _, err := guest.Build(filepath.Join(volumes, "containers", image)); err != nil {
		return err
	}
	_, err = m.StartLauncher(ctx, cluster.Node{Name: "demo", Socket: m.libvirt.Socket, Volumes: volumes, TPMStates: m.libvirt.TPMStates(),
		State: filepath.Join(m.dir, "state")})
	return err
}

func (m *machine) report(ctx context.Context, uid string) (guest.Report, error) {
	return guest.WaitReport(ctx, filepath.Join(m.dir, "state", uid, "serial.log"), 1)
}

func (m *machine) state(context.Context) (string, error) {
	state, err := m.libvirt.State(namespace + "_demo")
	return fmt.Sprintf("libvirt says that domain '%s_demo' is: %s", namespace, state), err
}

func (m *machine) hint() string { return fmt.Sprintf("virsh -c '%s' list", m.libvirt.URI) }

func (m *machine) logs() string { return m.Logs() }

func (m *machine) close() error {
	if m.libvirt == nil {
		return m.Close()
	}
	return errors.Join(m.libvirt.Close(), m.Close())
}
