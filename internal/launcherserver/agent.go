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

// thawTimer is the timer that ends a freeze which no request has ended in time.
type thawTimer struct {
	mutex sync.Mutex
	timer *time.Timer
}

// restartTimer stops a running timer, and calls do after the limit unless it is 0.
func (t *thawTimer) restartTimer(limit time.Duration, do func()) {
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

// serveFreeze freezes the filesystems of the guest, and thaws them after the time in the request, whose body is KubeVirt's FreezeUnfreezeTimeout.
func (s *Server) serveFreeze(w http.ResponseWriter, r *http.Request, g Guest) {
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
	s.thaw.restartTimer(limit, func() { s.thawAfterLimit(always, g, thawAttempts) })
	writeAnswer(w, r, s.actions.Freeze(always, g.Owner), nil)
}

// thawAttempts is how often thawAfterLimit tries, thawInterval the time between two attempts.
const (
	thawAttempts = 20
	thawInterval = 5 * time.Second
)

// thawAfterLimit thaws the filesystems of the guest after the limit of a freeze, and tries again if that fails.
func (s *Server) thawAfterLimit(ctx context.Context, g Guest, attempts int) {
	err := s.actions.Thaw(ctx, g.Owner)
	if err == nil {
		return
	}
	ctrl.LoggerFrom(ctx).Error(err, "the filesystems of the guest are still frozen, after the time that was asked for")
	if attempts > 1 {
		s.thaw.restartTimer(thawInterval, func() { s.thawAfterLimit(ctx, g, attempts-1) })
	}
}

// thawNow thaws the filesystems. It stops the timer only if it succeeds: a guest that is asked too early may freeze afterwards.
func (s *Server) thawNow(ctx context.Context, g Guest) error {
	err := s.actions.Thaw(ctx, g.Owner)
	if err == nil {
		s.thaw.restartTimer(0, nil)
	}
	return err
}

// answerAgentReport answers with the agent's reports, bounded and in KubeVirt's form.
func (s *Server) answerAgentReport(form func(hypervisor.AgentAnswers) any) func(http.ResponseWriter, *http.Request, Guest) {
	return func(w http.ResponseWriter, r *http.Request, g Guest) {
		answers, err := s.actions.Agent(r.Context(), g.Owner)
		if err != nil {
			writeAnswer(w, r, err, nil)
			return
		}
		writeAnswer(w, r, nil, form(answers))
	}
}

// The largest lists of an agent that are passed on, in items.
const (
	mostUsers       = 256
	mostFilesystems = 256
	mostCommands    = 256
)

func agentText(untrusted string) string { return guestagent.Text(untrusted, v1alpha1.LongestAgentText) }

func osInfo(answers hypervisor.AgentAnswers) any {
	info := v1.VirtualMachineInstanceGuestAgentInfo{
		GAVersion: agentText(answers.Version), Hostname: guestagent.Text(answers.Facts.Hostname, v1alpha1.LongestHostname), Timezone: agentText(answers.Timezone),
		OS: v1.VirtualMachineInstanceGuestOSInfo{
			Name: agentText(answers.Facts.OS.Name), KernelRelease: agentText(answers.Facts.OS.KernelRelease), Version: agentText(answers.Facts.OS.Version),
			PrettyName: agentText(answers.Facts.OS.PrettyName), VersionID: agentText(answers.Facts.OS.VersionID),
			KernelVersion: agentText(answers.Facts.OS.KernelVersion), Machine: agentText(answers.Facts.OS.Machine), ID: agentText(answers.Facts.OS.ID),
		},
		UserList: userList(answers).(v1.VirtualMachineInstanceGuestOSUserList).Items,
	}
	info.FSInfo.Filesystems = filesystemList(answers).(v1.VirtualMachineInstanceFileSystemList).Items
	for _, command := range answers.Commands[:min(len(answers.Commands), mostCommands)] {
		info.SupportedCommands = append(info.SupportedCommands, v1.GuestAgentCommandInfo{Name: agentText(command.Name), Enabled: command.Enabled})
	}
	if answers.Frozen {
		info.FSFreezeStatus = "frozen"
	}
	return info
}

func userList(answers hypervisor.AgentAnswers) any {
	list := v1.VirtualMachineInstanceGuestOSUserList{Items: []v1.VirtualMachineInstanceGuestOSUser{}}
	for _, user := range answers.Users[:min(len(answers.Users), mostUsers)] {
		list.Items = append(list.Items, v1.VirtualMachineInstanceGuestOSUser{
			UserName: agentText(user.Name), Domain: agentText(user.Domain), LoginTime: user.LoginTime,
		})
	}
	return list
}

func filesystemList(answers hypervisor.AgentAnswers) any {
	list := v1.VirtualMachineInstanceFileSystemList{Items: []v1.VirtualMachineInstanceFileSystem{}}
	for _, system := range answers.Filesystems[:min(len(answers.Filesystems), mostFilesystems)] {
		one := v1.VirtualMachineInstanceFileSystem{
			DiskName: agentText(system.Name), MountPoint: agentText(system.MountPoint), FileSystemType: agentText(system.Type),
			UsedBytes: system.UsedBytes, TotalBytes: system.TotalBytes,
		}
		for _, disk := range system.Disks[:min(len(system.Disks), mostFilesystems)] {
			one.Disk = append(one.Disk, v1.VirtualMachineInstanceFileSystemDisk{Serial: agentText(disk.Serial), BusType: agentText(disk.Bus)})
		}
		list.Items = append(list.Items, one)
	}
	return list
}
