//go:build virtctl

package virtctl

// What testdata/virtctl and virtctl's package vm import. 'go mod tidy' does not look there; it does look here, though no build has this tag.
import (
	_ "github.com/spf13/cobra"
	_ "kubevirt.io/client-go/kubecli"
	_ "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	_ "kubevirt.io/kubevirt/pkg/virtctl/clientconfig"
	_ "kubevirt.io/kubevirt/pkg/virtctl/create/params"
)
