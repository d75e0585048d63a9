package pods

import (
	"fmt"
	"slices"
	"strings"
)

// check looks at what must be as it was: the hardware of the VM, its disk, the other guest.
func (k *killer) check(phase string) {
	k.Helper()
	switch phase {
	case "create":
		k.hardware = k.record()
	case "delete":
		k.hardware = ""
	default:
		if now := k.record(); now != k.hardware || now == "" {
			k.Errorf("%s: the hardware was\n%s\nand is\n%s", phase, k.hardware, now)
		}
	}
	if phase == "create" || phase == "start" {
		log, _ := k.log("guest-target")
		if k.marked && !strings.Contains(log, "KILN-MARK vda 0 kept") {
			k.Errorf("%s: the disk has lost its content:\n%s", phase, log)
		}
		k.marked = true
	}
	for _, wrong := range k.guard.wrongs() {
		k.Error(phase + ": " + wrong)
	}
}

// record is the hardware of the VM.
func (k *killer) record() (text string) {
	k.Helper()
	k.eventually("the record is read", func() (string, bool) {
		var err error
		text, err = k.hardwareOf("target")
		return fmt.Sprint(err), err == nil
	})
	return text
}

// print says how often what was killed, and how long it took until all was as wanted.
func (k *killer) print() {
	k.guard.mutex.Lock()
	k.Logf("the processes were looked at %d times", k.guard.looks)
	k.guard.mutex.Unlock()
	head := fmt.Sprintf("%-15s", "killed during")
	for _, phase := range phases {
		head += fmt.Sprintf(" %7s", phase)
	}
	lines := []string{head + "   then as wanted: median, slowest"}
	for _, victim := range victims {
		line := fmt.Sprintf("%-15s", victim)
		for _, phase := range phases {
			line += fmt.Sprintf(" %7d", k.kills[phase+" "+victim])
		}
		if after := slices.Sorted(slices.Values(k.after[victim])); len(after) > 0 {
			line += fmt.Sprintf("   %6.1f s, %6.1f s", after[len(after)/2].Seconds(), after[len(after)-1].Seconds())
		}
		lines = append(lines, line)
	}
	k.Log("kills\n" + strings.Join(lines, "\n"))
}
