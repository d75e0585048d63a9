package launcherserver

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guestagent"
	"github.com/kilnvm/kiln/internal/hypervisor"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// thaw ends a freeze that nobody has ended in time.
type thaw struct {
	mutex sync.Mutex
	timer *time.Timer
}

// after calls do once the time is over; 0 only ends what waits.
func (t *thaw) after(limit time.Duration, do func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if limit > 0 {
		t.timer = time.AfterFunc(limit, do)
	}
}

// freeze freezes the filesystems of the guest, and thaws them after the time that the request says, in KubeVirt's form.
func (s *Server) freeze(w http.ResponseWriter, r *http.Request, g Guest) {
	options := v1.FreezeUnfreezeTimeout{}
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		http.Error(w, "the body cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	// The timer first: an agent may freeze after the client has given up, or a freeze has failed in part. A thaw of what is not frozen does no harm.
	always, limit := context.WithoutCancel(r.Context()), time.Duration(0)
	if options.UnfreezeTimeout != nil {
		limit = options.UnfreezeTimeout.Duration
	}
	s.thaw.after(limit, func() { s.thawed(always, g, thawAttempts) })
	answer(w, r, s.actions.Freeze(always, g.Owner), nil)
}

// thawAttempts is how often a thaw is tried, thawInterval the time between two attempts.
const (
	thawAttempts = 20
	thawInterval = 5 * time.Second
)

// thawed thaws the filesystems of the guest, again if it fails.
func (s *Server) thawed(ctx context.Context, g Guest, attempts int) {
	err := s.actions.Thaw(ctx, g.Owner)
	if err == nil {
		return
	}
	ctrl.LoggerFrom(ctx).Error(err, "the filesystems of the guest are still frozen, after the time that was asked for")
	if attempts > 1 {
		s.thaw.after(thawInterval, func() { s.thawed(ctx, g, attempts-1) })
	}
}

// unfreeze thaws the filesystems. The end of a freeze stands as long as it fails: a guest that is asked too early may freeze after it.
func (s *Server) unfreeze(ctx context.Context, g Guest) error {
	err := s.actions.Thaw(ctx, g.Owner)
	if err == nil {
		s.thaw.after(0, nil)
	}
	return err
}

// facts answers with what the guest agent says, within bounds, in KubeVirt's form.
func (s *Server) facts(form func(hypervisor.AgentAnswers) any) func(http.ResponseWriter, *http.Request, Guest) {
	return func(w http.ResponseWriter, r *http.Request, g Guest) {
		said, err := s.actions.Agent(r.Context(), g.Owner)
		if err != nil {
			answer(w, r, err, nil)
			return
		}
		answer(w, r, nil, form(said))
	}
}

// Bounds of lists that an agent says, in items.
const (
	mostUsers       = 256
	mostFilesystems = 256
	mostCommands    = 256
)

func text(said string) string { return guestagent.Text(said, v1alpha1.LongestAgentText) }

func osInfo(said hypervisor.AgentAnswers) any {
	info := v1.VirtualMachineInstanceGuestAgentInfo{
		GAVersion: text(said.Version), Hostname: guestagent.Text(said.Facts.Hostname, v1alpha1.LongestHostname), Timezone: text(said.Timezone),
		OS: v1.VirtualMachineInstanceGuestOSInfo{
			Name: text(said.Facts.OS.Name), KernelRelease: text(said.Facts.OS.KernelRelease), Version: text(said.Facts.OS.Version),
			PrettyName: text(said.Facts.OS.PrettyName), VersionID: text(said.Facts.OS.VersionID), KernelVersion: text(said.Facts.OS.KernelVersion),
			Machine: text(said.Facts.OS.Machine), ID: text(said.Facts.OS.ID),
		},
		UserList: users(said).(v1.VirtualMachineInstanceGuestOSUserList).Items,
	}
	info.FSInfo.Filesystems = filesystems(said).(v1.VirtualMachineInstanceFileSystemList).Items
	for _, command := range said.Commands[:min(len(said.Commands), mostCommands)] {
		info.SupportedCommands = append(info.SupportedCommands, v1.GuestAgentCommandInfo{Name: text(command.Name), Enabled: command.Enabled})
	}
	if said.Frozen {
		info.FSFreezeStatus = "frozen"
	}
	return info
}

func users(said hypervisor.AgentAnswers) any {
	list := v1.VirtualMachineInstanceGuestOSUserList{Items: []v1.VirtualMachineInstanceGuestOSUser{}}
	for _, user := range said.Users[:min(len(said.Users), mostUsers)] {
		list.Items = append(list.Items, v1.VirtualMachineInstanceGuestOSUser{UserName: text(user.Name), Domain: text(user.Domain), LoginTime: user.LoginTime})
	}
	return list
}

func filesystems(said hypervisor.AgentAnswers) any {
	list := v1.VirtualMachineInstanceFileSystemList{Items: []v1.VirtualMachineInstanceFileSystem{}}
	for _, system := range said.Filesystems[:min(len(said.Filesystems), mostFilesystems)] {
		one := v1.VirtualMachineInstanceFileSystem{
			DiskName: text(system.Name), MountPoint: text(system.MountPoint), FileSystemType: text(system.Type),
			UsedBytes: system.UsedBytes, TotalBytes: system.TotalBytes,
		}
		for _, disk := range system.Disks[:min(len(system.Disks), mostFilesystems)] {
			one.Disk = append(one.Disk, v1.VirtualMachineInstanceFileSystemDisk{Serial: text(disk.Serial), BusType: text(disk.Bus)})
		}
		list.Items = append(list.Items, one)
	}
	return list
}
