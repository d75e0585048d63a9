package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/kilnvm/kiln/internal/cli/importreport"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// importFlags are the flags of one call. maps and sizes are as the user wrote them.
type importFlags struct {
	domainimport.Options
	maps, sizes []string
	// apply creates the objects in the cluster.
	apply bool
	// report is the file of the HTML page; empty for none.
	report string
}

// parse reads --map and --size, and checks --report before anything is made.
func (f *importFlags) parse() error {
	if _, err := os.Lstat(f.report); f.report != "" && err == nil {
		return importreport.FileExists(f.report)
	}
	f.Networks, f.Claims, f.Sizes = map[string]string{}, map[string]string{}, map[string]resource.Quantity{}
	for _, text := range f.maps {
		kind, rest, _ := strings.Cut(text, "=")
		at := strings.LastIndexByte(rest, '=')
		if at < 1 || at == len(rest)-1 || kind != "network" && kind != "claim" {
			return fmt.Errorf("--map '%s': must be network=SOURCE=NAD, network=SOURCE=pod or claim=DISK=PVC", text)
		}
		from, to := rest[:at], rest[at+1:]
		for part := range strings.SplitSeq(to, "/") {
			if problems := validation.IsDNS1123Subdomain(part); len(problems) > 0 {
				return fmt.Errorf("--map '%s': '%s' is no name of an object: %s", text, to, problems[0])
			}
		}
		if kind == "network" {
			f.Networks[from] = to
		} else {
			f.Claims[from] = to
		}
	}
	for _, text := range f.sizes {
		disk, value, _ := strings.Cut(text, "=")
		size, err := resource.ParseQuantity(value)
		if disk == "" || err != nil || size.Sign() <= 0 {
			return fmt.Errorf("--size '%s': must be DISK=QUANTITY, such as vda=20Gi", text)
		}
		f.Sizes[disk] = size
	}
	return nil
}
