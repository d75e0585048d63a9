package domainimport

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/imported"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Messages about devices for which there is no room.
const noPlace = "no PCI address is left"

// tooMany matches the message of the API's schema about a list that is too long.
var tooMany = regexp.MustCompile(`^should have at most ([0-9]+) items$`)

// perSATA is the number of drives of a SATA controller.
const perSATA = 6

// deviceKinds are the lists of devices with names, with the kinds of the devices in records, and the lists with what the devices are attached to.
var deviceKinds = []struct{ list, kind, attachments string }{
	{"spec.template.spec.domain.devices.disks", "disk", "spec.template.spec.volumes"},
	{"spec.template.spec.domain.devices.filesystems", "filesystem", "spec.template.spec.volumes"},
	{"spec.template.spec.domain.devices.interfaces", "interface", "spec.template.spec.networks"},
	{"spec.template.spec.domain.devices.inputs", "input", ""},
}

// deviceOf returns the key of the device at a path, such as disk.vda; empty if the path is no device with a name.
func (r *repairer) deviceOf(path []string) string {
	for _, of := range deviceKinds {
		if len(path) == 0 || pathText(path[:len(path)-1]) != of.list {
			continue
		}
		if device, is := valueAt(r.judged.Object, path).(map[string]any); is {
			name, _ := device["name"].(string)
			return of.kind + "." + name
		}
	}
	return ""
}

// isAttachment reports whether a path is in a volume or network.
func isAttachment(path []string) bool {
	return len(path) > 3 && (path[3] == "volumes" || path[3] == "networks")
}

// removeTarget removes a field or an element from both VMs. What a removed device was attached to goes with it: a VM needs the claims of all of its volumes.
func (r *repairer) removeTarget(t target) {
	if key := r.deviceOf(t.path); key != "" {
		if r.left == nil {
			r.left = map[string]string{}
		}
		r.left[key] = t.reason
		kind, name, _ := strings.Cut(key, ".")
		for _, of := range deviceKinds {
			if of.kind == kind && of.attachments != "" {
				r.each(func(vm *unstructured.Unstructured) { removeNamed(vm, of.attachments, name) })
			}
		}
	}
	r.each(func(vm *unstructured.Unstructured) { removeAt(vm.Object, t.path) })
}

// removeNamed removes the elements of a name from a list.
func removeNamed(vm *unstructured.Unstructured, list, name string) {
	steps := step.FindAllString(list, -1)
	elements, _ := valueAt(vm.Object, steps).([]any)
	if holder, is := valueAt(vm.Object, steps[:len(steps)-1]).(map[string]any); is && elements != nil {
		holder[steps[len(steps)-1]] = slices.DeleteFunc(slices.Clone(elements), func(element any) bool {
			object, _ := element.(map[string]any)
			return object["name"] == name
		})
	}
}

// withReasons returns a reading with the reasons why devices are not in the VM.
func (r *repairer) withReasons(reading *imported.Reading) *imported.Reading {
	with := *reading
	for _, key := range slices.Sorted(maps.Keys(r.left)) {
		with.Notes = append(slices.Clip(with.Notes), imported.Note{Device: key, Text: r.left[key]})
	}
	return &with
}

// truncate removes the elements of a list after the first ones. A list of attachments becomes shorter with the devices.
func (r *repairer) truncate(list string, most int, reason string) bool {
	steps := step.FindAllString(list, -1)
	elements, _ := valueAt(r.judged.Object, steps).([]any)
	for index := len(elements) - 1; index >= most; index-- {
		path := append(slices.Clone(steps), "["+strconv.Itoa(index)+"]")
		if !isAttachment(path) {
			r.removeTarget(target{path, reason})
		}
	}
	return len(elements) > most
}

// freePlaces removes drives and network cards, because devices have no place. unplaced are the keys of these devices. They may be controllers that each VM
// has. A SATA controller without a place is one of several: all drives of the last one may go, and one drive of the controller before it.
func (r *repairer) freePlaces(unplaced []string) (removed bool) {
	controllers := 0
	for _, key := range unplaced {
		if strings.HasPrefix(key, "controller.sata.") {
			controllers++
		}
	}
	drives, cards := r.lastOf("disk", "virtio"), r.lastOf("interface", "")
	if controllers > 0 {
		drives, cards = r.lastOf("disk", "sata"), nil
		unplaced = make([]string, (controllers-1)*perSATA+1)
	}
	for range unplaced {
		list := &drives
		if len(cards) > len(drives) { // so that a machine with many cards keeps its disk
			list = &cards
		}
		if len(*list) == 0 {
			break
		}
		r.removeTarget(target{(*list)[0], "the VM has more devices than places for them: " + noPlace})
		*list, removed = (*list)[1:], true
	}
	return removed
}

// lastOf returns the paths of the devices of a kind, the last one first. It returns only the drives of a bus, if a bus is given.
func (r *repairer) lastOf(kind, bus string) (paths [][]string) {
	for _, of := range deviceKinds {
		if of.kind != kind {
			continue
		}
		steps := step.FindAllString(of.list, -1)
		elements, _ := valueAt(r.judged.Object, steps).([]any)
		for index := len(elements) - 1; index >= 0; index-- {
			if device, _ := elements[index].(map[string]any); bus == "" || busOf(device) == bus {
				paths = append(paths, append(slices.Clone(steps), "["+strconv.Itoa(index)+"]"))
			}
		}
	}
	return paths
}

// busOf returns the bus of a drive.
func busOf(disk map[string]any) string {
	for _, kind := range []string{"disk", "cdrom", "lun"} {
		if drive, is := disk[kind].(map[string]any); is {
			bus, _ := drive["bus"].(string)
			return bus
		}
	}
	return ""
}
