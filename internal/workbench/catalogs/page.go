package catalogs

import (
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/site"
	"github.com/kilnvm/kiln/pkg/catalog"
)

// mostPairs is the maximal number of pairs of instancetypes and preferences that are compared for a page: 1,000 of each.
const mostPairs = 1_000_000

// PageContent returns the content of the catalog's static page, with the lifecycles at the time now. It leaves out Object.Fits if the catalog has more
// than mostPairs pairs. refused are the reasons of RefusedByRuntime.
func (c Catalog) PageContent(now time.Time, refused map[catalog.Key]string) (page site.Catalog, err error) {
	index := catalog.IndexOf(c.Objects, now)
	objects, manifests := map[catalog.Key]*catalog.Object{}, map[catalog.Key]string{}
	for i, o := range c.Objects {
		raw, err := c.Manifest(i)
		if err != nil {
			return page, err
		}
		objects[o.Key()], manifests[o.Key()] = o, string(raw)
	}
	// As 'kubectl kiln instancetypes' lists them: by series and size, and not by name.
	slices.SortStableFunc(index.Instancetypes, func(a, b catalog.Entry) int { return orderOffers(Offer{Entry: a}, Offer{Entry: b}) })
	show := func(kind string, entries []catalog.Entry) (all []site.Object) {
		for _, e := range entries {
			shown := shownEntry(kind, e)
			shown.Manifest, shown.Refused = manifests[e.Key], refused[e.Key]
			for _, f := range objects[e.Key].Fields() {
				shown.Fields = append(shown.Fields, site.Field(f))
			}
			all = append(all, shown)
		}
		return all
	}
	page.Instancetypes, page.Preferences = show("instancetype", index.Instancetypes), show("preference", index.Preferences)
	if len(page.Instancetypes)*len(page.Preferences) > mostPairs {
		return page, nil
	}
	for i, one := range index.Instancetypes {
		for j, other := range index.Preferences {
			if catalog.Meets(objects[one.Key], objects[other.Key]) {
				page.Instancetypes[i].Fits = append(page.Instancetypes[i].Fits, j)
			}
		}
	}
	return page, nil
}

// labelSystem has the type of a preference's operating system, by which a page filters. The published format of catalogs includes it.
const labelSystem = "instancetype.kubevirt.io/os-type"

// shownEntry converts an entry of the index to an object of the page. Class is the class of an instancetype, or the type of a preference's operating
// system. ID is unique in the page, and part of a permalink.
func shownEntry(kind string, e catalog.Entry) site.Object {
	shown := site.Object{
		ID: kind + "/" + strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"), Name: e.Name, Namespace: e.Namespace, Display: e.DisplayName,
		Description: e.Description, Lifecycle: e.Lifecycle, ReplacedBy: e.ReplacedBy, Class: e.Labels[classLabel], Architectures: e.Architectures,
		CPUs: e.CPUs, Memory: e.Memory, Bytes: e.Bytes, GPUs: e.GPUs, Features: e.Features,
	}
	if kind == "preference" {
		shown.Class = e.Labels[labelSystem]
	}
	return shown
}
