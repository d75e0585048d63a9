package beside

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// migrates migrates a guest, and waits until the other node has it.
func (l live) migrates() {
	l.Helper()
	from := l.guest(l.name).Status.NodeName
	l.must("migrate", l.name)
	l.eventually(l.name+" has migrated", func() (bool, any) {
		is := l.guest(l.name)
		state := is.Status.MigrationState
		return state != nil && state.Completed && !state.Failed && is.Status.NodeName != from && is.Labels[v1.NodeNameLabel] == is.Status.NodeName &&
			is.Status.NodeName != "", is.Status
	})
	if is := l.guest(l.name); is.UID != l.was.UID || is.Status.Phase != v1.Running {
		l.Errorf("after the migration: %s, %s", is.UID, is.Status.Phase)
	}
}

// TestMigration: a guest migrates there and back; each time the target's virt-handler takes it over from the source's.
func TestMigration(t *testing.T) {
	s := newSpace(t)
	t.Parallel()
	l := s.starts("migrant", "")
	l.migrates()
	s.eventually("the migration has succeeded", func() (bool, any) {
		list, err := s.on.List(t.Context(), s.in("vmim"), "")
		s.ok(err)
		migration := as[v1.VirtualMachineInstanceMigration](s, &list.Items[0])
		return migration.Status.Phase == v1.MigrationSucceeded, migration.Status
	})
	l.migrates()
	s.noFight()
}
