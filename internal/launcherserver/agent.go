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

// thaw is the timer that ends a freeze which no request has ended in time.
type thaw struct {
	mutex sync.Mutex
	timer *time.Timer
}

// after stops a running timer, and calls do after the limit unless it is 0.
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

// freeze freezes the filesystems of the guest, and thaws them after the time in the request, whose body is KubeVirt's FreezeUnfreezeTimeout.
func (s *Server) freeze(w http.ResponseWriter, r *http.Request, g Guest) {
	options := v1.FreezeUnfreezeTimeout{}
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		http.Error(w, "the body cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	// The timer starts first, because an agent may freeze after the client has given up, or may freeze only some filesystems. A thaw of filesystems that are not
	// frozen does no harm.
	always, limit := context.WithoutCancel(r.Context()), time.Duration(0)
	if options.UnfreezeTimeout != nil {
		limit = options.UnfreezeTimeout.Duration
	}
	s.thaw.after(limit, func() { s.thawed(always, g, thawAttempts) })
	answer(w, r, s.actions.Freeze(always, g.Owner), nil)
}

// thawAttempts is how often thawed tries, thawInterval the time between two attempts.
const (
	thawAttempts = 20
	thawInterval = 5 * time.Second
)

// thawed thaws the filesystems of the guest after the limit of a freeze, and tries again if that fails.
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

// unfreeze thaws the filesystems. It stops the timer only if it succeeds: a guest that is asked too early may freeze afterwards.
func (s *Server) unfreeze(ctx context.Context, g Guest) error {
	err := s.actions.Thaw(ctx, g.Owner)
	if err == nil {
		s.thaw.after(0, nil)
	}
	return err
}

// facts answers with the agent's reports, bounded and in KubeVirt's form.
func (s *Server) facts(form func(hypervisor.AgentAnswers) any) func(http.ResponseWriter, *http.Request, Guest) {
	return func(w http.ResponseWriter, r *http.Request, g Guest) {
		answers, err := s.actions.Agent(r.Context(), g.Owner)
		if err != nil {
			answer(w, r, err, nil)
			return
		}
		answer(w, r, nil, form(answers))
	}
}

// The largest lists of an agent that are passed on, in items.
const (
	mostUsers       = 256
	mostFilesystems = 256
	mostCommands    = 256
)

func text(untrusted string) string { return guestagent.Text(untrusted, v1alpha1.LongestAgentText) }

func osInfo(answers hypervisor.AgentAnswers) any {
	info := v1.VirtualMachineInstanceGuestAgentInfo{
		GAVersion: text(answers.Version), Hostname: guestagent.Text(answers.Facts.Hostname, v1alpha1.LongestHostname), Timezone: text(answers.Timezone),
		OS: v1.VirtualMachineInstanceGuestOSInfo{
			Name: text(answers.Facts.OS.Name), KernelRelease: text(answers.Facts.OS.KernelRelease), Version: text(answers.Facts.OS.Version),
			PrettyName: text(answers.Facts.OS.PrettyName), VersionID: text(answers.Facts.OS.VersionID), KernelVersion: text(answers.Facts.OS.KernelVersion),
			Machine: text(answers.Facts.OS.Machine), ID: text(answers.Facts.OS.ID),
		},
		UserList: users(answers).(v1.VirtualMachineInstanceGuestOSUserList).Items,
	}
	info.FSInfo.Filesystems = filesystems(answers).(v1.VirtualMachineInstanceFileSystemList).Items
	for _, command := range answers.Commands[:min(len(answers.Commands), mostCommands)] {
		info.SupportedCommands = append(info.SupportedCommands, v1.GuestAgentCommandInfo{Name: text(command.Name), Enabled: command.Enabled})
	}
	if answers.Frozen {
		info.FSFreezeStatus = "frozen"
	}
	return info
}

func users(answers hypervisor.AgentAnswers) any {
	list := v1.VirtualMachineInstanceGuestOSUserList{Items: []v1.VirtualMachineInstanceGuestOSUser{}}
	for _, user := range answers.Users[:min(len(answers.Users), mostUsers)] {
		list.Items = append(list.Items, v1.VirtualMachineInstanceGuestOSUser{UserName: text(user.Name), Domain: text(user.Domain), LoginTime: user.LoginTime})
	}
	return list
}

func filesystems(answers hypervisor.AgentAnswers) any {
	list := v1.VirtualMachineInstanceFileSystemList{Items: []v1.VirtualMachineInstanceFileSystem{}}
	for _, system := range answers.Filesystems[:min(len(answers.Filesystems), mostFilesystems)] {
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
