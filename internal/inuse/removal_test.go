package inuse

import "testing"

func TestRemoval(t *testing.T) {
	for _, test := range []struct {
		kind             string
		pinned, unpinned int
		want             string
	}{
		{"VirtualMachinePreference", 1, 2,
			"1 VM keeps its revision, and starts and restarts as before; 2 VMs without a revision cannot start; new VMs that name it cannot start"},
		{"VirtualMachineClusterInstancetype", 2, 0, "2 VMs keep their revision, and start and restart as before; new VMs that name it cannot start"},
		{"GuestProfile", 1, 2, "1 VM is pinned to the profile and keeps its values; 2 VMs without pins start without its values; new VMs do not get them"},
		{"ClusterGuestProfile", 2, 0, "2 VMs are pinned to the profile and keep its values; new VMs do not get them"},
		{"GuestPolicy", 0, 3, "the policy does not judge them any more"},
	} {
		if got := (&Users{Pinned: test.pinned, Unpinned: test.unpinned}).DescribeRemoval(test.kind); got != test.want {
			t.Errorf("%s, %d pinned, %d not: %s", test.kind, test.pinned, test.unpinned, got)
		}
	}
}
