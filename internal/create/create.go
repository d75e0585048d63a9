// Package create makes manifests of VMs, instancetypes and preferences from the flags of virtctl's 'create' commands. The manifests have the same
// specs as the manifests of virtctl v1.9. The package neither connects to a cluster nor reads files.
package create

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Values of flags are NAME:VALUE pairs with commas between them, as in virtctl's package params. Therefore a value cannot contain a comma: URLs of
// images have none, and semicolons separate the headers of a list.

// flagError returns the error of a flag. It names the flag as the user types it.
func flagError(flag, format string, args ...any) error {
	return fmt.Errorf("--%s: %w", flag, fmt.Errorf(format, args...))
}

// checkName fails if no object can have this name.
func checkName(name string) error {
	if findings := validation.IsDNS1123Subdomain(name); len(findings) > 0 {
		return flagError("name", "'%s': %s", name, strings.Join(findings, "; "))
	}
	return nil
}

// parameters are the value of a flag with several parts, such as 'src:my-pvc,bootorder:1'. The first colon ends a name, so values may contain colons.
type parameters struct {
	flag   string
	values map[string]string
}

// parseParameters parses the value of a flag. If a name is given twice, the last value counts, as in virtctl. Unlike the error of virtctl's Map, the error
// lists the allowed names.
func parseParameters(flag, text string, allowed ...string) (parameters, error) {
	p := parameters{flag, map[string]string{}}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, ":")
		switch {
		case !found:
			return p, flagError(flag, "'%s' must be NAME:VALUE", part)
		case !slices.Contains(allowed, name):
			return p, flagError(flag, "'%s' is unknown: use '%s'", name, strings.Join(allowed, "', '"))
		}
		p.values[name] = value
	}
	return p, nil
}

// requiredValue returns a value that must be given.
func (p parameters) requiredValue(name string) (string, error) {
	if p.values[name] == "" {
		return "", flagError(p.flag, "%s must be given", name)
	}
	return p.values[name], nil
}

// requireAll fails if one of these values is not given.
func (p parameters) requireAll(names ...string) error {
	for _, name := range names {
		if _, err := p.requiredValue(name); err != nil {
			return err
		}
	}
	return nil
}

// optionalValue returns a pointer to a value; nil if it is not given.
func (p parameters) optionalValue(name string) *string {
	if value := p.values[name]; value != "" {
		return &value
	}
	return nil
}

// listValue returns the parts of a value between semicolons.
func (p parameters) listValue(name string) []string {
	if p.values[name] == "" {
		return nil
	}
	return strings.Split(p.values[name], ";")
}

// bootOrder returns the boot order of a disk; nil if it is not given. The API counts from 1, and treats 0 as absent.
func (p parameters) bootOrder() (*uint, error) {
	text, given := p.values["bootorder"]
	if !given {
		return nil, nil
	}
	order, err := strconv.ParseUint(text, 10, 32)
	if err != nil || order == 0 {
		return nil, flagError(p.flag, "bootorder '%s' must be a number from 1 on", text)
	}
	return new(uint(order)), nil
}

// sizeValue returns a quantity of bytes; nil if it is not given. It refuses 0, which virtctl accepts: CDI would create a claim that no provisioner binds.
func (p parameters) sizeValue() (*resource.Quantity, error) {
	text, given := p.values["size"]
	if !given {
		return nil, nil
	}
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, flagError(p.flag, "size '%s': %s", text, validate.NoQuantity(text))
	}
	if size.Sign() <= 0 {
		return nil, flagError(p.flag, "size '%s': must be greater than 0", text)
	}
	return &size, nil
}

// localName returns the name of an object in the namespace of the VM. Claims, Secrets and ConfigMaps of other namespaces cannot be mounted.
func (p parameters) localName(name string) (string, error) {
	value, err := p.requiredValue(name)
	if err != nil {
		return "", err
	}
	prefix, own, err := splitPrefix(value)
	switch {
	case err != nil:
		return "", flagError(p.flag, "%s: %w", name, err)
	case prefix != "":
		return "", flagError(p.flag, "%s '%s' must be in the namespace of the VM: leave '%s/' out", name, value, prefix)
	}
	return own, nil
}

// splitPrefix divides 'PREFIX/NAME' or 'NAME'.
func splitPrefix(text string) (prefix, name string, err error) {
	prefix, name, found := strings.Cut(text, "/")
	if !found {
		prefix, name = "", text
	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("'%s' must be NAME or PREFIX/NAME", text)
	}
	return prefix, name, nil
}
