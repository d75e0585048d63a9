package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nodeServer gives volumes to pods: a folder by a bind mount, a sparse file by a loop device. Trap: kubelet puts its own loop device over the loop device of
// a volume, and releases it after NodeUnpublishVolume, but before NodeUnstageVolume. Therefore volumes are staged. If each publication had a loop device, the
// device of the previous publication could still have content to write.
type nodeServer struct {
	csi.UnimplementedNodeServer
	*driver
}

func (n *nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node}, nil
}

func (*nodeServer) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	rpc := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{Rpc: rpc}}}}, nil
}

func (n *nodeServer) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if r.VolumeCapability == nil || r.StagingTargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "say where, and what the volume must be capable of")
	}
	n.store.Lock()
	defer n.store.Unlock()
	found, err := n.findVolume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if !found.Block {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	_, err = n.ensureLoopDevice(found)
	return &csi.NodeStageVolumeResponse{}, err
}

func (n *nodeServer) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if r.StagingTargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "say where")
	}
	n.store.Lock()
	defer n.store.Unlock()
	found, err := n.findVolume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	devices, err := n.loopDevices(found)
	for _, device := range devices {
		_, failed := runLosetup("--detach", device)
		err = errors.Join(err, failed)
	}
	return &csi.NodeUnstageVolumeResponse{}, err
}

func (n *nodeServer) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if r.VolumeCapability == nil || r.TargetPath == "" || r.StagingTargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "say from where, to where, and what the volume must be capable of")
	}
	n.store.Lock()
	defer n.store.Unlock()
	found, err := n.findVolume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if found.Block != (r.VolumeCapability.GetBlock() != nil) {
		return nil, status.Error(codes.InvalidArgument, "the volume has the other mode")
	}
	from := n.store.contentPath(volumes, found.ID)
	if found.Block {
		if from, err = n.ensureLoopDevice(found); err != nil {
			return nil, err
		}
	}
	if mounted, err := mountedAt(r.TargetPath); err != nil || mounted {
		return &csi.NodePublishVolumeResponse{}, err
	}
	if err := found.createMountPoint(r.TargetPath); err != nil {
		return nil, err
	}
	err = unix.Mount(from, r.TargetPath, "", unix.MS_BIND, "")
	if err == nil && r.Readonly {
		err = unix.Mount("", r.TargetPath, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "mounting '%s': %v", r.TargetPath, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// createMountPoint makes the file or folder on which a volume is mounted.
func (of *item) createMountPoint(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if !of.Block {
		return os.MkdirAll(path, 0o750)
	}
	file, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func (n *nodeServer) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if r.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "say where")
	}
	n.store.Lock()
	defer n.store.Unlock()
	if _, err := n.findVolume(r.VolumeId); err != nil {
		return nil, err
	}
	if mounted, err := mountedAt(r.TargetPath); err != nil {
		return nil, err
	} else if mounted {
		if err := unix.Unmount(r.TargetPath, 0); err != nil {
			return nil, &fs.PathError{Op: "umount", Path: r.TargetPath, Err: err}
		}
	}
	// Not RemoveAll: what is left in a folder is no business of the driver's.
	if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// mountedAt reports whether something is mounted at a path, by proc_pid_mountinfo(5).
func mountedAt(path string) (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true, nil
		}
	}
	return false, nil
}

// ensureLoopDevice returns the loop device of a volume, and creates a missing one.
func (n *nodeServer) ensureLoopDevice(of *item) (string, error) {
	devices, err := n.loopDevices(of)
	if err != nil {
		return "", err
	}
	if len(devices) > 0 {
		return devices[0], nil
	}
	return runLosetup("--find", "--show", n.store.contentPath(volumes, of.ID))
}

func (n *nodeServer) loopDevices(of *item) ([]string, error) {
	if !of.Block {
		return nil, nil
	}
	out, err := runLosetup("--associated", n.store.contentPath(volumes, of.ID), "--noheadings", "--output", "NAME")
	return strings.Fields(out), err
}

func runLosetup(args ...string) (string, error) {
	out, err := exec.Command("losetup", args...).CombinedOutput()
	if err != nil {
		return "", status.Errorf(codes.Internal, "losetup %s: %v: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}
