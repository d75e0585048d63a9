package guest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/client-go/util/flowcontrol"
)

// pendingChange is one difference between the wanted and the running hardware, and the change that removes it.
type pendingChange struct {
	// name describes the change in messages, and is the key of its requests.
	name string
	// change is nil if the difference remains until a restart.
	change *hypervisor.Change
}

// errNeedsRestart is the error of a pendingChange whose change is nil.
var errNeedsRestart = errors.New("only a restart does that")

// pendingChanges lists the differences between the running and the wanted hardware, in the order in which they are to be removed.
func pendingChanges(front render.Front, now, wanted v1alpha1.LiveHardware) (open []pendingChange) {
	if now.VCPUs != wanted.VCPUs {
		open = append(open, pendingChange{fmt.Sprintf("%d vCPUs", wanted.VCPUs), &hypervisor.Change{Kind: hypervisor.SetVCPUs, Amount: uint64(max(wanted.VCPUs, 1))}})
	}
	if more := wanted.MemoryKiB - now.MemoryKiB; more != 0 {
		memory := pendingChange{name: fmt.Sprintf("%d MiB of memory", wanted.MemoryKiB>>10)}
		if more > 0 {
			memory.change = &hypervisor.Change{Kind: hypervisor.AddMemory, Amount: uint64(more)}
		}
		open = append(open, memory)
	}
	aliases := render.Aliases(front)
	add := func(kind hypervisor.ChangeKind, key, what string) {
		if alias, known := aliases[key]; known && !slices.Contains(now.Absent, key) {
			open = append(open, pendingChange{what, &hypervisor.Change{Kind: kind, Alias: alias}})
		}
	}
	for _, key := range wanted.Absent {
		kind, name := record.SplitKey(key)
		add(hypervisor.Unplug, key, fmt.Sprintf("no %s '%s'", kind, name))
	}
	for _, key := range now.Absent {
		if kind, name := record.SplitKey(key); !slices.Contains(wanted.Absent, key) {
			open = append(open, pendingChange{name: fmt.Sprintf("%s '%s'", kind, name)})
		}
	}
	for _, list := range []struct {
		more, less []string
		kind       hypervisor.ChangeKind
		of, what   string
	}{
		{wanted.LinksDown, now.LinksDown, hypervisor.LinkDown, "interface", "link of interface '%s' down"},
		{now.LinksDown, wanted.LinksDown, hypervisor.LinkUp, "interface", "link of interface '%s' up"},
		{wanted.Ejected, now.Ejected, hypervisor.Eject, "disk", "no medium in CD-ROM '%s'"},
		{now.Ejected, wanted.Ejected, hypervisor.Insert, "disk", "a medium in CD-ROM '%s'"},
	} {
		for _, name := range list.more {
			if key := record.Key(list.of, name); !slices.Contains(list.less, name) && !slices.Contains(wanted.Absent, key) {
				add(list.kind, key, fmt.Sprintf(list.what, name))
			}
		}
	}
	return open
}

// changeRequests contains the requests made to libvirt and the guest, by the names of their changes. A guest may ignore a request: then the request is repeated
// after a back-off.
type changeRequests struct {
	byChange map[string]changeRequest
	backoff  *flowcontrol.Backoff
}

type changeRequest struct {
	err         error
	nextAttempt time.Time
}

// The time between two requests for one change doubles from firstPause to longestPause. It starts low, because a guest that boots ignores an unplug, and obeys
// a later one.
const (
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
)

func newChangeRequests() changeRequests {
	backoff := flowcontrol.NewBackOff(firstPause, longestPause)
	// By default a back-off is reset if nothing is tried for a while. Here that means that a request hung, and must not reset the back-off.
	backoff.HasExpiredFunc = func(time.Time, time.Time, time.Duration) bool { return false }
	return changeRequests{byChange: map[string]changeRequest{}, backoff: backoff}
}

// forgetCompleted forgets the requests whose changes are no longer pending.
func (r changeRequests) forgetCompleted(open []pendingChange) {
	for what := range r.byChange {
		if !slices.ContainsFunc(open, func(n pendingChange) bool { return n.name == what }) {
			delete(r.byChange, what)
			r.backoff.Reset(what)
		}
	}
}

// timeUntilDue returns the time until the next request for a change; 0 or less if the request is due.
func (r changeRequests) timeUntilDue(what string, now time.Time) time.Duration {
	return r.byChange[what].nextAttempt.Sub(now)
}

// recordAttempt records a request with its error, and returns the time until the next request.
func (r changeRequests) recordAttempt(what string, err error, now time.Time) time.Duration {
	r.backoff.Next(what, now)
	pause := r.backoff.Get(what)
	r.byChange[what] = changeRequest{err: err, nextAttempt: now.Add(pause)}
	return pause
}

// hindranceText returns why requested changes are still pending; empty if no pending change was requested.
func (r changeRequests) hindranceText(open []pendingChange) string {
	var texts []string
	for _, need := range open {
		switch made, found := r.byChange[need.name]; {
		case found && made.err != nil:
			texts = append(texts, fmt.Sprintf("%s: %v", need.name, made.err))
		case found:
			texts = append(texts, need.name+": the guest has been asked, and has not done it")
		}
	}
	return strings.Join(texts, "; ")
}
