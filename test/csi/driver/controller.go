package main

import (
	"context"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// driver is what the services share.
type driver struct {
	store store
	node  string
}

type controller struct {
	csi.UnimplementedControllerServer
	*driver
}

// usual is the size of a volume of which nobody says the size, longest the most bytes that a name may have.
const (
	usual   = 16 << 20
	longest = 1024
)

func (*controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, of := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_RPC{Type: of}
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}})
	}
	return answer, nil
}

func (c *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.Name == "" || len(r.Name) > longest || len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "name a volume, and say what it must be capable of")
	}
	c.store.Lock()
	defer c.store.Unlock()
	wanted := &item{ID: idOf(r.Name), Name: r.Name, Bytes: max(r.GetCapacityRange().GetRequiredBytes(), 0), Created: time.Now()}
	for _, capability := range r.VolumeCapabilities {
		wanted.Block = wanted.Block || capability.GetBlock() != nil
	}
	from, content, err := c.findSource(r.VolumeContentSource)
	if err != nil {
		return nil, err
	}
	if from != nil {
		wanted.Source = from.ID
		if from.Block != wanted.Block {
			return nil, status.Error(codes.InvalidArgument, "the volume is to have another mode than its source")
		}
		wanted.Bytes = max(wanted.Bytes, from.Bytes)
	}
	if wanted.Bytes == 0 {
		wanted.Bytes = usual
	}
	if limit := r.GetCapacityRange().GetLimitBytes(); limit > 0 && wanted.Bytes > limit {
		return nil, status.Errorf(codes.OutOfRange, "the volume needs %d bytes, more than the limit, %d", wanted.Bytes, limit)
	}
	found, err := c.store.get(volumes, wanted.ID)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return volumeAnswer(wanted, r.VolumeContentSource), c.store.put(volumes, wanted, content)
	}
	if found.Block != wanted.Block || found.Source != wanted.Source || found.Bytes < r.GetCapacityRange().GetRequiredBytes() {
		return nil, status.Errorf(codes.AlreadyExists, "volume '%s' exists, and is another one", r.Name)
	}
	return volumeAnswer(found, r.VolumeContentSource), nil
}

func volumeAnswer(of *item, source *csi.VolumeContentSource) *csi.CreateVolumeResponse {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: of.ID, CapacityBytes: of.Bytes, ContentSource: source}}
}

// findSource returns what a volume is to be a copy of, and where the content of that is.
func (c *controller) findSource(of *csi.VolumeContentSource) (*item, string, error) {
	if of == nil {
		return nil, "", nil
	}
	which, id := snapshots, of.GetSnapshot().GetSnapshotId()
	if of.GetVolume() != nil {
		which, id = volumes, of.GetVolume().GetVolumeId()
	}
	found, err := c.store.get(which, id)
	if err == nil && found == nil {
		err = status.Errorf(codes.NotFound, "'%s' is not one of the %s", id, which)
	}
	return found, c.store.contentPath(which, id), err
}

func (c *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "name the volume")
	}
	c.store.Lock()
	defer c.store.Unlock()
	return &csi.DeleteVolumeResponse{}, c.store.remove(volumes, r.VolumeId)
}

func (c *controller) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "say what the volume must be capable of")
	}
	found, err := c.findVolume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	for _, capability := range r.VolumeCapabilities {
		if (capability.GetBlock() != nil) != found.Block {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: "the volume has the other mode"}, nil
		}
	}
	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

// findVolume returns a volume that a request names.
func (d *driver) findVolume(id string) (*item, error) {
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "name the volume")
	}
	found, err := d.store.get(volumes, id)
	if err == nil && found == nil {
		err = status.Errorf(codes.NotFound, "there is no volume '%s'", id)
	}
	return found, err
}

func (c *controller) ListVolumes(_ context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	c.store.Lock()
	defer c.store.Unlock()
	all, err := c.store.list(volumes)
	if err != nil {
		return nil, err
	}
	some, next, err := pageOf(all, r.StartingToken, r.MaxEntries)
	if err != nil {
		return nil, err
	}
	answer := &csi.ListVolumesResponse{NextToken: next}
	for _, of := range some {
		answer.Entries = append(answer.Entries, &csi.ListVolumesResponse_Entry{Volume: &csi.Volume{VolumeId: of.ID, CapacityBytes: of.Bytes}})
	}
	return answer, nil
}

// pageOf returns the part of a list that a request asks for. A token is the index of its first item.
func pageOf(all []*item, token string, most int32) (some []*item, next string, err error) {
	from := 0
	if token != "" {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "'%s' is no token of this list", token)
		}
	}
	some = all[from:]
	if most > 0 && int(most) < len(some) {
		return some[:most], strconv.Itoa(from + int(most)), nil
	}
	return some, "", nil
}

func (c *controller) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if r.Name == "" || len(r.Name) > longest || r.SourceVolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "name a snapshot, and its volume")
	}
	c.store.Lock()
	defer c.store.Unlock()
	found, err := c.store.get(snapshots, idOf(r.Name))
	if err != nil {
		return nil, err
	}
	if found != nil && found.Source != r.SourceVolumeId {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot '%s' exists, of another volume", r.Name)
	}
	if found == nil {
		source, err := c.findVolume(r.SourceVolumeId)
		if err != nil {
			return nil, err
		}
		found = &item{ID: idOf(r.Name), Name: r.Name, Bytes: source.Bytes, Block: source.Block, Source: source.ID, Created: time.Now()}
		if err := c.store.put(snapshots, found, c.store.contentPath(volumes, source.ID)); err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotAnswer(found)}, nil
}

func snapshotAnswer(of *item) *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: of.ID, SourceVolumeId: of.Source, SizeBytes: of.Bytes, CreationTime: timestamppb.New(of.Created), ReadyToUse: true}
}

func (c *controller) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if r.SnapshotId == "" {
		return nil, status.Error(codes.InvalidArgument, "name the snapshot")
	}
	c.store.Lock()
	defer c.store.Unlock()
	return &csi.DeleteSnapshotResponse{}, c.store.remove(snapshots, r.SnapshotId)
}

func (c *controller) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	c.store.Lock()
	defer c.store.Unlock()
	all, err := c.store.list(snapshots)
	if err != nil {
		return nil, err
	}
	var asked []*item
	for _, of := range all {
		if (r.SnapshotId == "" || r.SnapshotId == of.ID) && (r.SourceVolumeId == "" || r.SourceVolumeId == of.Source) {
			asked = append(asked, of)
		}
	}
	some, next, err := pageOf(asked, r.StartingToken, r.MaxEntries)
	if err != nil {
		return nil, err
	}
	answer := &csi.ListSnapshotsResponse{NextToken: next}
	for _, of := range some {
		answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshotAnswer(of)})
	}
	return answer, nil
}
