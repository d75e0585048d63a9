package frontend_test

import v1 "kubevirt.io/api/core/v1"

func disk(name string, bus v1.DiskBus) v1.Disk {
	return v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}}
}

func ptr[T any](v T) *T { return &v }
