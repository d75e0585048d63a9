package validate_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/validate"
)

// TestNoQuantity: of an amount with a unit that Kubernetes does not have, what was probably meant is said.
func TestNoQuantity(t *testing.T) {
	t.Parallel()
	const none = "must be a quantity such as '500M' or '2Gi'"
	write := func(what string) string { return "must be a quantity: write " + what }
	for text, want := range map[string]string{
		"128MB": write("128M or 128Mi"), "128mb": write("128M or 128Mi"), "128Mb": write("128M or 128Mi"), "128 megabytes": write("128M or 128Mi"),
		"1KB": write("1k or 1Ki"), "1K": write("1k or 1Ki"), "1GB": write("1G or 1Gi"), "1g": write("1G or 1Gi"), "1,5g": write("1.5G or 1.5Gi"),
		"2 Gi": write("2Gi"), "2GiB": write("2Gi"), "2gib": write("2Gi"), "2gi": write("2Gi"), "3MiB": write("3Mi"), "1 TB": write("1T or 1Ti"),
		"4 Mebibytes": write("4Mi"), "64B": write("64"), "64 bytes": write("64"), "-1MB": write("-1M or -1Mi"),
		"many": none, "": none, "2 cores": none, "GB": none, "1..2GB": none, "2Gigs": none, "128MBMB": none,
	} {
		if got := validate.NoQuantity(text); got != want {
			t.Errorf("'%s': %s, want %s", text, got, want)
		}
	}
}
