package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Prepared describes a node that another machine runs, see RunOnMachine. It has no PID.
type Prepared struct {
	Ready
	// Spec is what RunOnMachine reads. The files at Spec.Dir must be at the same path of the other machine, and the folders of Spec.Tools.
	Spec Spec `json:"spec"`
}

// Prepare writes the files of a node that another machine runs, and that joins the first node by a port of its bridge.
func (c *Cluster) Prepare(name string) (Prepared, error) {
	if _, err := c.findNode(name); err == nil {
		return Prepared{}, errors.New("the node is there already")
	}
	if len(c.nodes) == 0 {
		return Prepared{}, errors.New("the first node has the control plane, and runs here")
	}
	n, err := c.prepareNode(name)
	if err != nil {
		return Prepared{}, err
	}
	return Prepared{Ready: c.describe(n), Spec: n.Spec}, nil
}

// RunOnMachine runs a node that another machine has prepared, on a machine that has no other node. The machine has an interface 'lan', which leads to the
// other nodes. The words call Init in a new process of this program. RunOnMachine reads a Spec, writes a report when pods can run, and ends the node when its
// input ends. Then the machine has neither the node's processes nor its cgroups.
func RunOnMachine(in io.Reader, out io.Writer, words ...string) (err error) {
	decoder := json.NewDecoder(in)
	var spec Spec
	if err := decoder.Decode(&spec); err != nil {
		return fmt.Errorf("reading what node this is: %w", err)
	}
	handle, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := errors.Join(setAddresses(handle, spec.Number), makeCgroup(spec.Cgroup)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeCgroup(spec.Cgroup)) }()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer nothing.Close()
	cmd := hiddenCommand(apart&^unix.CLONE_NEWNET, words...)
	cmd.Stdout, cmd.ExtraFiles = out, []*os.File{nothing} // the listener of the first node
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := json.NewEncoder(pipe).Encode(spec); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = pipe.Close() // which stops Inside
	}()
	return cmd.Wait()
}
