package devices

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
)

const (
	// listTimeout bounds the program that lists machine types. QEMU answers in a fraction of a second.
	listTimeout = time.Minute
	// mostMachineTypes bounds the annotation. QEMU 7.2 has 61 machine types for amd64.
	mostMachineTypes = 500
)

// listMachineTypes returns the machine types of a QEMU program, sorted. QEMU prints a header, and one line for each type, which begins with its name.
func listMachineTypes(ctx context.Context, emulator string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, emulator, "-machine", "help")
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -machine help: %s", emulator, strings.TrimSpace(err.Error()+" "+condition.OneLine(complaint.String())))
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 1 && !strings.HasSuffix(words[len(words)-1], ":") {
			names = append(names, words[0])
		}
	}
	if len(names) == 0 || len(names) > mostMachineTypes {
		return nil, fmt.Errorf("%s -machine help printed %d machine types", emulator, len(names))
	}
	slices.Sort(names)
	return names, nil
}
