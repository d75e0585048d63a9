package cmdutil

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
)

// PrintNames prints a name in each line, for -o name.
func (o *Printer) PrintNames(names []string) error {
	for _, name := range names {
		if _, err := fmt.Fprintln(o.Out, Printable(name)); err != nil {
			return err
		}
	}
	return nil
}

// ResourceName returns KIND.GROUP/NAME of an object that Kiln judges, as 'kubectl get -o name' prints it.
func ResourceName(kind, name string) string {
	group := v1.SchemeGroupVersion.Group
	for _, kinds := range []instancetype.KindNames{instancetype.Kinds, instancetype.PreferenceKinds} {
		if kinds.Canonical(kind) != "" {
			group = "instancetype.kubevirt.io"
		}
	}
	return strings.ToLower(kind) + "." + group + "/" + name
}
