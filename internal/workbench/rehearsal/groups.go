package rehearsal

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/record"
)

// group collects a Group.
type group struct {
	Group
	key                string
	namespaces, owners map[string]int
	// members are the indices of the group's VMs.
	members []int
}

// addResult adds the result of a VM to the counts and to the group of its cause.
func (h *rehearser) addResult(object manifest.Object, r *Result) {
	vm := VM{Namespace: object.GetNamespace(), Name: object.GetName(), Owner: object.GetLabels()[h.OwnerLabel], Verdict: r.Verdict}
	h.Counts[r.Verdict]++
	if len(r.Before) > 0 {
		h.RefusedBefore++
	}
	if r.Verdict == Unjudged {
		h.Unjudged = append(h.Unjudged, Unknown{object.Name(), r.Reason})
	}
	at := len(h.VMs)
	h.VMs = append(h.VMs, vm)
	if r.Pins != nil {
		h.Plan = append(h.Plan, planItem(object, r))
	}
	if r.Verdict == Unjudged || r.Verdict == AlreadyRefused || r.Verdict == Same && len(r.Causes) == 0 {
		return
	}
	installed := len(r.Refusals) == 0 && len(r.Causes) > 0 && !slices.ContainsFunc(r.Causes, func(c Cause) bool { return !c.Installed })
	if installed {
		h.Installed[r.Verdict]++
	}
	key, err := json.Marshal([]any{r.Verdict, r.Causes, r.Changes, r.Rollout, r.Refusals})
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	g := h.groups[string(key)]
	if g == nil {
		g = &group{key: string(key), namespaces: map[string]int{}, owners: map[string]int{}, Group: Group{Verdict: r.Verdict, Installed: installed, Causes: r.Causes,
			Changes: append([]record.Change{}, r.Changes...), Rollout: r.Rollout, Refusals: append([]Refusal{}, r.Refusals...)}}
		if g.Causes == nil {
			g.Causes = []Cause{}
		}
		h.groups[g.key] = g
	}
	g.members = append(g.members, at)
	g.namespaces[vm.Namespace]++
	g.owners[vm.Owner]++
	if name := vm.Namespace + "/" + vm.Name; g.Example == "" || name < g.Example {
		g.Example = name
	}
}

// sortGroups numbers the groups: groups of the changes before groups of a repin alone, then the worst verdicts first, then the largest groups first.
func (h *rehearser) sortGroups() {
	var all []*group
	for _, g := range h.groups {
		g.VMs = len(g.members)
		g.Namespaces, g.Owners = sortedCounts(g.namespaces), sortedCounts(g.owners)
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(boolRank(a.Installed)-boolRank(b.Installed), b.Verdict.Rank()-a.Verdict.Rank(), b.VMs-a.VMs, strings.Compare(a.key, b.key))
	})
	for i, g := range all {
		g.ID = i + 1
		for _, member := range g.members {
			h.VMs[member].Group = g.ID
		}
		h.Groups = append(h.Groups, g.Group)
	}
}

func boolRank(is bool) int {
	if is {
		return 1
	}
	return 0
}
