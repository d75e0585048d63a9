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
	projected(func(l *list) *[]libvirtxml.DomainDisk { return &l.Disks }, disk, func(a, b *libvirtxml.DomainDisk) int { return byAlias(a.Alias, b.Alias) }),
	projected(func(l *list) *[]libvirtxml.DomainController { return &l.Controllers }, controller, byIndex),
	projected(func(l *list) *[]libvirtxml.DomainFilesystem { return &l.Filesystems }, filesystem,
		func(a, b *libvirtxml.DomainFilesystem) int { return byAlias(a.Alias, b.Alias) }),
	projected(func(l *list) *[]libvirtxml.DomainInterface { return &l.Interfaces }, nic,
		func(a, b *libvirtxml.DomainInterface) int { return byAlias(a.Alias, b.Alias) }),
	projected(func(l *list) *[]libvirtxml.DomainSerial { return &l.Serials }, serial, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainChannel { return &l.Channels }, channel, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainInput { return &l.Inputs }, input, func(a, b *libvirtxml.DomainInput) int { return byAlias(a.Alias, b.Alias) }),
	projected(func(l *list) *[]libvirtxml.DomainTPM { return &l.TPMs }, tpm, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainSound { return &l.Sounds }, sound, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainVideo { return &l.Videos }, unchanged, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainHostdev { return &l.Hostdevs }, hostdev,
		func(a, b *libvirtxml.DomainHostdev) int { return byAlias(a.Alias, b.Alias) }),
	projected(func(l *list) *[]libvirtxml.DomainRedirDev { return &l.RedirDevs }, redirdev, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainWatchdog { return &l.Watchdogs }, watchdog, asGiven),
	single(func(l *list) **libvirtxml.DomainMemBalloon { return &l.MemBalloon }, balloon),
	projected(func(l *list) *[]libvirtxml.DomainRNG { return &l.RNGs }, rng, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainPanic { return &l.Panics }, unchanged, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainMemorydev { return &l.Memorydevs }, unchanged, asGiven),
	projected(func(l *list) *[]libvirtxml.DomainIOMMU { return &l.IOMMUs }, unchanged, asGiven),
	single(func(l *list) **libvirtxml.DomainVSock { return &l.VSock }, unchanged),
}

// projection is what a guest sees of one list, or of a device of which a domain has one.
type projection struct {
	// field is its name in libvirtxml.
	field  string
	single bool
	// project writes the sorted projections of one domain's devices into another list.
	project func(to, from *list)
	// seen returns a function that returns the sorted projections one after the other, each by a pointer that is valid until the next, and nil at the end.
	seen func(from *list) (next func() any)
	// same reports whether the projections of two domains' devices are equal, without sorting them.
	same func(a, b *list) bool
}

func projected[T any](in func(*list) *[]T, of func(T) T, order func(a, b *T) int) projection {
	return projection{
		field:   fieldOf[[]T](),
		project: func(to, from *list) { *in(to) = project(ordered(*in(from), order), of) },
		seen:    func(from *list) func() any { return oneByOne(*in(from), of, order) },
		same:    func(a, b *list) bool { return sameProjected(*in(a), *in(b), of) },
	}
}

func single[T any](in func(*list) **T, of func(*T) *T) projection {
	return projection{
		field: fieldOf[*T](), single: true,
		project: func(to, from *list) { *in(to) = of(*in(from)) },
		seen: func(from *list) func() any {
			if *in(from) == nil {
				return none
			}
			return func() any { return of(*in(from)) }
		},
		same: func(a, b *list) bool { return sameSeen(*in(a), *in(b), of) },
	}
}

func none() any { return nil }

// oneByOne returns the projections of a list in one variable, because the structs of devices are large.
func oneByOne[T any](list []T, of func(T) T, order func(a, b *T) int) (next func() any) {
	if len(list) == 0 {
		return none
	}
	rest, seen := ordered(list, order), new(T)
	return func() any {
		if len(rest) == 0 {
			return nil
		}
		*seen, rest = of(*rest[0]), rest[1:]
		return seen
	}
}

// fieldOf is the name of the field of a list that has a type.
func fieldOf[T any]() string {
	fields := reflect.VisibleFields(reflect.TypeFor[list]())
	return fields[slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Type == reflect.TypeFor[T]() })].Name
}

// project maps each element of a list.
func project[T any](list []*T, of func(T) T) []T {
	out := make([]T, 0, len(list))
	for _, e := range list {
		out = append(out, of(*e))
	}
	return out
}

// ordered sorts pointers, because the structs of devices are large.
func ordered[T any](list []T, order func(a, b *T) int) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	slices.SortStableFunc(out, order)
	return out
}

// asGiven keeps the order of the domain.
func asGiven[T any](_, _ *T) int { return 0 }

// byIndex sorts by type first: indices are unique within a type.
func byIndex(a, b *libvirtxml.DomainController) int {
	if a.Type != b.Type {
		return strings.Compare(a.Type, b.Type)
	}
	return cmp.Compare(value(a.Index), value(b.Index))
}

func byAlias(a, b *libvirtxml.DomainAlias) int { return strings.Compare(aliased(a), aliased(b)) }

func aliased(a *libvirtxml.DomainAlias) string {
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
	// The backend copies the lists that it changes and shares the others.
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	before, after := new(T), new(T)
	for i := range a {
		if *before, *after = of(a[i]), of(b[i]); !same(before, after) {
			return false
		}
	}
	return true
}

// sameSeen compares the projections of two parts. Parts that the two domains share need none.
func sameSeen[T any](a, b *T, of func(*T) *T) bool { return a == b || same(of(a), of(b)) }

// devices projects all lists.
func devices(l *list) *list {
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
