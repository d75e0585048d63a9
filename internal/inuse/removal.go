package inuse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
)

// DescribeRemoval says what happens to the users of an object of a kind when it is deleted.
func (u *Users) DescribeRemoval(kind string) string {
	switch {
	case kind == v1alpha1.KindGuestPolicy:
		return "the policy does not judge them any more"
	case slices.Contains(instancetype.CatalogKinds(), kind):
		return strings.Join(append(CatalogRemoval(u.Pinned, u.Unpinned), "new VMs that name it cannot start"), "; ")
	}
	var removed []string
	switch {
	case u.Pinned == 1:
		removed = append(removed, "1 VM is pinned to the profile and keeps its values")
	case u.Pinned > 1:
		removed = append(removed, CountVMs(u.Pinned)+" are pinned to the profile and keep its values")
	}
	switch {
	case u.Unpinned == 1:
		removed = append(removed, "1 VM without pins starts without its values")
	case u.Unpinned > 1:
		removed = append(removed, CountVMs(u.Unpinned)+" without pins start without its values")
	}
	return strings.Join(append(removed, "new VMs do not get them"), "; ")
}

// CatalogRemoval says what happens to VMs with and without a revision of an instancetype or preference when it is deleted.
func CatalogRemoval(pinned, unpinned int) (removed []string) {
	switch {
	case pinned == 1:
		removed = append(removed, "1 VM keeps its revision, and starts and restarts as before")
	case pinned > 1:
		removed = append(removed, CountVMs(pinned)+" keep their revision, and start and restart as before")
	}
	if unpinned > 0 {
		removed = append(removed, CountVMs(unpinned)+" without a revision cannot start")
	}
	return removed
}

// CountVMs returns a number of VMs in words.
func CountVMs(n int) string {
	if n == 1 {
		return "1 VM"
	}
	return fmt.Sprintf("%d VMs", n)
}
