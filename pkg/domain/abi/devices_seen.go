package abi

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Projects the lists of devices on what a guest sees of them. A new list of libvirtxml must be added to projections, or no digest shows its
// devices.

// list shortens the table below.
type list = libvirtxml.DomainDeviceList

// projections has every list that the guest sees, in the order of libvirtxml's fields: the list, the projection of a device, and the order. Disks,
// file systems, interfaces, inputs and host devices are sorted by alias and controllers by index: with addresses their order has no meaning, and
// libvirt stores another one than the spec's. The order of the others, such as serial ports, numbers them.
var projections = []projection{
	projectionOfList(func(l *list) *[]libvirtxml.DomainDisk { return &l.Disks }, projectDisk,
		func(a, b *libvirtxml.DomainDisk) int { return byAlias(a.Alias, b.Alias) }),
	projectionOfList(func(l *list) *[]libvirtxml.DomainController { return &l.Controllers }, projectController, byIndex),
	projectionOfList(func(l *list) *[]libvirtxml.DomainFilesystem { return &l.Filesystems }, projectFilesystem,
		func(a, b *libvirtxml.DomainFilesystem) int { return byAlias(a.Alias, b.Alias) }),
	comparedByParts(projectedWithLists(interfacesOf, projectNIC, func(a, b *libvirtxml.DomainInterface) int { return byAlias(a.Alias, b.Alias) }),
		interfacesOf, nicPartsOf),
	projectionOfList(func(l *list) *[]libvirtxml.DomainSerial { return &l.Serials }, projectSerial, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainChannel { return &l.Channels }, projectChannel, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainInput { return &l.Inputs }, projectInput,
		func(a, b *libvirtxml.DomainInput) int { return byAlias(a.Alias, b.Alias) }),
	projectionOfList(func(l *list) *[]libvirtxml.DomainTPM { return &l.TPMs }, projectTPM, asGiven),
	projectedWithLists(func(l *list) *[]libvirtxml.DomainSound { return &l.Sounds }, projectSound, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainVideo { return &l.Videos }, keepAll, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainHostdev { return &l.Hostdevs }, projectHostdev,
		func(a, b *libvirtxml.DomainHostdev) int { return byAlias(a.Alias, b.Alias) }),
	projectionOfList(func(l *list) *[]libvirtxml.DomainRedirDev { return &l.RedirDevs }, projectRedirDev, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainWatchdog { return &l.Watchdogs }, projectWatchdog, asGiven),
	projectionOfOne(func(l *list) **libvirtxml.DomainMemBalloon { return &l.MemBalloon }, projectBalloon, writeBalloon),
	projectionOfList(func(l *list) *[]libvirtxml.DomainRNG { return &l.RNGs }, projectRNG, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainPanic { return &l.Panics }, keepAll, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainMemorydev { return &l.Memorydevs }, keepAll, asGiven),
	projectionOfList(func(l *list) *[]libvirtxml.DomainIOMMU { return &l.IOMMUs }, keepAll, asGiven),
	projectionOfOne(func(l *list) **libvirtxml.DomainVSock { return &l.VSock }, keepAll, appendCanonicalOf),
}

func interfacesOf(l *list) *[]libvirtxml.DomainInterface { return &l.Interfaces }

// projection is what a guest sees of one list, or of a device of which a domain has one.
type projection struct {
	// project writes the sorted projections of one domain's devices into another list.
	project func(to, from *list)
	// write appends the canonical text of the field: of its name and of the sorted projections. It appends nothing if there is no device.
	write func(out []byte, from *list) []byte
	// same reports whether the projections of two domains' devices are equal, without sorting them.
	same func(a, b *list) bool
}

// projectionOfList is the projection of a list of devices that Go can compare, as most are.
func projectionOfList[T comparable](in func(*list) *[]T, of func(T) T, order func(a, b *T) int) projection {
	return comparedByParts(projectedWithLists(in, of, order), in, of)
}

// comparedByParts is a projection whose devices are compared by parts that Go can compare first, and by reflection only if these differ.
func comparedByParts[T any, K comparable](p projection, in func(*list) *[]T, parts func(T) K) projection {
	whole := p.same
	p.same = func(a, b *list) bool { return equalParts(*in(a), *in(b), parts) || whole(a, b) }
	return p
}

// projectedWithLists is the projection of a list of devices that contain lists, which Go cannot compare.
func projectedWithLists[T any](in func(*list) *[]T, of func(T) T, order func(a, b *T) int) projection {
	field, write := fieldOf[[]T]()+":[", writerOf(of)
	return projection{
		project: func(to, from *list) { *in(to) = projectAll(appendSorted(nil, *in(from), order), of) },
		write: func(out []byte, from *list) []byte {
			if len(*in(from)) == 0 {
				return out
			}
			out = append(out, field...)
			var few [64]*T // on the stack
			for _, device := range appendSorted(few[:0], *in(from), order) {
				out = append(write(out, device), ',')
			}
			return append(out, "] "...)
		},
		same: func(a, b *list) bool { return sameProjected(*in(a), *in(b), of) },
	}
}

// projectionOfOne is the projection of a device of which a domain has one. write appends what the projection keeps of it.
func projectionOfOne[T comparable](in func(*list) **T, of func(*T) *T, write func(out []byte, device *T) []byte) projection {
	field := fieldOf[*T]() + ":"
	return projection{
		project: func(to, from *list) { *in(to) = of(*in(from)) },
		write: func(out []byte, from *list) []byte {
			if device := *in(from); device != nil {
				return append(write(append(out, field...), device), ' ')
			}
			return out
		},
		same: func(a, b *list) bool { return sameParts(*in(a), *in(b), of) },
	}
}

// fieldOf is the name of the field of a list that has a type.
func fieldOf[T any]() string {
	fields := reflect.VisibleFields(reflect.TypeFor[list]())
	return fields[slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Type == reflect.TypeFor[T]() })].Name
}

// projectAll projects each element of a list.
func projectAll[T any](list []*T, of func(T) T) []T {
	out := make([]T, 0, len(list))
	for _, e := range list {
		out = append(out, of(*e))
	}
	return out
}

// appendSorted appends sorted pointers, because the structs of devices are large.
func appendSorted[T any](out []*T, list []T, order func(a, b *T) int) []*T {
	start := len(list) // of the sorted devices at the end: of all, mostly
	for start > 0 && (start == len(list) || order(&list[start-1], &list[start]) <= 0) {
		start--
	}
	if start == 0 {
		return appendPointers(out, list)
	}
	// The PCI controllers, which are most, are at the end of a frontend's list and belong to the front: moving them leaves little to sort.
	if isBefore(&list[len(list)-1], list[:start], order) {
		out = appendPointers(appendPointers(out, list[start:]), list[:start])
	} else {
		out = appendPointers(out, list)
	}
	slices.SortStableFunc(out, order)
	return out
}

// isBefore reports whether a device belongs before all others.
func isBefore[T any](device *T, others []T, order func(a, b *T) int) bool {
	for i := range others {
		if order(device, &others[i]) >= 0 {
			return false
		}
	}
	return true
}

func appendPointers[T any](out []*T, list []T) []*T {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// asGiven keeps the order of the domain.
func asGiven[T any](_, _ *T) int { return 0 }

// byIndex sorts by type first: indices are unique within a type.
func byIndex(a, b *libvirtxml.DomainController) int {
	if a.Type != b.Type {
		return strings.Compare(a.Type, b.Type)
	}
	return cmp.Compare(valueOr0(a.Index), valueOr0(b.Index))
}

func byAlias(a, b *libvirtxml.DomainAlias) int { return strings.Compare(aliasName(a), aliasName(b)) }

func aliasName(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	return a.Name
}

// sameProjected compares two lists element by element, in the order that they have.
func sameProjected[T any](a, b []T, of func(T) T) bool {
	if len(a) != len(b) {
		return false
	}
	if sameList(a, b) {
		return true
	}
	before, after := new(T), new(T)
	for i := range a {
		if *before, *after = of(a[i]), of(b[i]); !sameText(before, after) {
			return false
		}
	}
	return true
}

// equalParts reports whether the projections share all their parts, as they mostly do: the backend adds parts and copies none.
func equalParts[T any, K comparable](a, b []T, of func(T) K) bool {
	if len(a) != len(b) || sameList(a, b) {
		return len(a) == len(b)
	}
	for i := range a {
		if of(a[i]) != of(b[i]) {
			return false
		}
	}
	return true
}

// sameList reports whether two lists of one length are the same list: the backend copies the lists that it changes and shares the others.
func sameList[T any](a, b []T) bool { return len(a) == 0 || &a[0] == &b[0] }

// sameSeen compares the projections of two parts. Parts that the two domains share need none.
func sameSeen[T any](a, b *T, of func(*T) *T) bool { return a == b || sameText(of(a), of(b)) }

// sameParts is sameSeen for parts that Go compares, which mostly takes no reflection.
func sameParts[T comparable](a, b *T, of func(*T) *T) bool {
	if a == b {
		return true
	}
	a, b = of(a), of(b)
	return a != nil && b != nil && *a == *b || sameText(a, b)
}

// projectDevices projects all lists.
func projectDevices(l *list) *list {
	if l == nil {
		return nil
	}
	out := &list{}
	for _, s := range projections {
		s.project(out, l)
	}
	return out
}

// sameDevices reports whether the projections of two domains' devices are equal, without building the lists.
func sameDevices(a, b *list) bool {
	if a == nil || b == nil {
		return a == b
	}
	return !slices.ContainsFunc(projections, func(s projection) bool { return !s.same(a, b) })
}
