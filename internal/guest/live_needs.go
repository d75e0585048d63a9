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

// need is one difference of what is asked for from what runs, and the change that ends it.
type need struct {
	// what names it, for people and for requests.
	what string
	// change is nil for what cannot be changed while the guest runs.
	change *hypervisor.Change
}

// errImpossible is why a need without a change stays.
var errImpossible = errors.New("only a restart does that")

// needs lists the differences. The order is that in which they are met.
func needs(front render.Front, now, wanted v1alpha1.LiveHardware) (open []need) {
	if now.VCPUs != wanted.VCPUs {
		open = append(open, need{fmt.Sprintf("%d vCPUs", wanted.VCPUs), &hypervisor.Change{Kind: hypervisor.SetVCPUs, Amount: uint64(max(wanted.VCPUs, 1))}})
	}
	if more := wanted.MemoryKiB - now.MemoryKiB; more != 0 {
		memory := need{what: fmt.Sprintf("%d MiB of memory", wanted.MemoryKiB>>10)}
		if more > 0 {
			memory.change = &hypervisor.Change{Kind: hypervisor.AddMemory, Amount: uint64(more)}
		}
		open = append(open, memory)
	}
	aliases := render.Aliases(front)
	add := func(kind hypervisor.ChangeKind, key, what string) {
		if alias, known := aliases[key]; known && !slices.Contains(now.Absent, key) {
			open = append(open, need{what, &hypervisor.Change{Kind: kind, Alias: alias}})
		}
	}
	for _, key := range wanted.Absent {
		kind, name := record.SplitKey(key)
		add(hypervisor.Unplug, key, fmt.Sprintf("no %s '%s'", kind, name))
	}
	for _, key := range now.Absent {
		if kind, name := record.SplitKey(key); !slices.Contains(wanted.Absent, key) {
			open = append(open, need{what: fmt.Sprintf("%s '%s'", kind, name)})
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

// requests are the requests to libvirt and the guest by the names of their needs. The guest may ignore a request: it is repeated after a back-off.
type requests struct {
	byNeed  map[string]request
	backoff *flowcontrol.Backoff
}

type request struct {
	err  error
	next time.Time
}

// The time between two requests for one need doubles from firstPause to longestPause. It starts low: the guest's system ignores an unplug while it boots and
// obeys a later one.
const (
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
)

func newRequests() requests {
	backoff := flowcontrol.NewBackOff(firstPause, longestPause)
	// By default a back-off begins anew if nothing is tried for a while, which here means that a request hung.
	backoff.HasExpiredFunc = func(time.Time, time.Time, time.Duration) bool { return false }
	return requests{byNeed: map[string]request{}, backoff: backoff}
}

// keep forgets the requests whose needs are met.
func (r requests) keep(open []need) {
	for what := range r.byNeed {
		if !slices.ContainsFunc(open, func(n need) bool { return n.what == what }) {
			delete(r.byNeed, what)
			r.backoff.Reset(what)
		}
	}
}

// due returns the time until the next request for a need; 0 or less if it is to be made now.
func (r requests) due(what string, now time.Time) time.Duration { return r.byNeed[what].next.Sub(now) }

// note records a request that was made, with its error, and returns the time to the next.
func (r requests) note(what string, err error, now time.Time) time.Duration {
	r.backoff.Next(what, now)
	pause := r.backoff.Get(what)
	r.byNeed[what] = request{err: err, next: now.Add(pause)}
	return pause
}

// hindrance says why needs are open for which a request was made.
func (r requests) hindrance(open []need) string {
	var texts []string
	for _, need := range open {
		switch made, found := r.byNeed[need.what]; {
		case found && made.err != nil:
			texts = append(texts, fmt.Sprintf("%s: %v", need.what, made.err))
		case found:
			texts = append(texts, need.what+": the guest has been asked, and has not done it")
		}
	}
	return strings.Join(texts, "; ")
}
