package commoncpu

import (
	"cmp"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// counts has, for each vendor, model and feature, the number of groups that have it. So the intersection of all groups but one costs no look at the others.
type counts struct {
	groups                    []*group
	vendors, models, features map[string]int
	// allModels and allFeatures are those that all groups have, nearModels and nearFeatures those that all groups but one have. They are sorted.
	allModels, allFeatures, nearModels, nearFeatures []string
}

func countOffers(groups []*group) *counts {
	c := &counts{groups: groups, vendors: map[string]int{}, models: map[string]int{}, features: map[string]int{}}
	for _, g := range groups {
		c.vendors[g.vendor]++
		for _, name := range g.models {
			c.models[name]++
		}
		for _, name := range g.features {
			c.features[name]++
		}
	}
	c.allModels, c.allFeatures = namesWithCount(c.models, len(groups)), namesWithCount(c.features, len(groups))
	c.nearModels, c.nearFeatures = namesWithCount(c.models, len(groups)-1), namesWithCount(c.features, len(groups)-1)
	return c
}

func namesWithCount(of map[string]int, count int) (names []string) {
	for name, n := range of {
		if n == count {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// common is what groups have in common. Without a model it has no features.
type common struct {
	model    string
	features []string
}

// without returns what the groups except one have in common; all groups for nil.
func (c *counts) without(left *group) (found common) {
	vendor := ""
	for name, n := range c.vendors {
		if left != nil && name == left.vendor && n == 1 {
			continue
		}
		if vendor != "" {
			return common{}
		}
		vendor = name
	}
	models, features := c.allModels, c.allFeatures
	if left != nil {
		models = slices.Concat(models, lackedNames(c.nearModels, left.models))
		features = slices.Concat(features, lackedNames(c.nearFeatures, left.features))
		slices.Sort(features)
	}
	for _, model := range models {
		if _, counts := ageOf(vendor, model); counts && (found.model == "" || compareModels(vendor, model, found.model) > 0) {
			found.model = model
		}
	}
	if found.model != "" {
		found.features = features
	}
	return found
}

// lackedNames returns the names that are not in a sorted list.
func lackedNames(names, sorted []string) (lacked []string) {
	for _, name := range names {
		if _, found := slices.BinarySearch(sorted, name); !found {
			lacked = append(lacked, name)
		}
	}
	return lacked
}

// findLimits returns the groups without which the others would have more in common than all, those first without which they would have most.
func (c *counts) findLimits(all common) (limits []v1alpha1.CommonCPULimit) {
	if len(c.groups) < 2 {
		return nil
	}
	for _, g := range c.groups {
		if c.vendors[g.vendor] > 1 && len(lackedNames(c.nearFeatures, g.features))+len(lackedNames(c.nearModels, g.models)) == 0 {
			continue // the others have no more in common than all; of many groups only a few limit
		}
		others := c.without(g)
		gained := lackedNames(others.features, all.features)
		limit := v1alpha1.CommonCPULimit{Nodes: int32(len(g.names)), Names: firstNames(g.names, mostNames), Features: int32(len(gained)),
			FeatureNames: firstNames(gained, mostGained)}
		if others.model != all.model {
			limit.Model = others.model
		}
		if limit.Model != "" || limit.Features > 0 {
			limits = append(limits, limit)
		}
	}
	slices.SortStableFunc(limits, func(a, b v1alpha1.CommonCPULimit) int {
		return cmp.Or(compareBools(b.Model != "", a.Model != ""), cmp.Compare(b.Features, a.Features))
	})
	return limits[:min(len(limits), mostLimits)]
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
