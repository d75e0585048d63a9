// Package version reports what a binary was built from.
package version

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/spf13/cobra"
	admission "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirt "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"
)

// The Makefile and manifests/images set these variables with -ldflags: a build without -buildvcs, or from an archive, has no revision. The linker can set only
// variables. Trap: do not use k8s.io/component-base/version instead. Package metrics of component-base, which CEL's environment links, takes its gitVersion for
// the version of Kubernetes when a process starts: it panics at the output of 'git describe' without a tag, and deprecates metrics by any other version.
var (
	stamp     string // the output of 'git describe'
	revision  string // the commit
	committed string // the time of the commit (RFC 3339)
)

// Info is what a binary was built from. Unknown fields are empty.
type Info struct {
	// Version is the Makefile's stamp, else the module's version, else '(devel)'.
	Version string `json:"version"`
	// Revision is the commit, Time is its time, and Modified reports that files differed from it.
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	// Platform is the operating system and the architecture that the binary was built for.
	Platform string `json:"platform"`
	// APIs are the groups and versions that Kiln's programs read and write.
	APIs []string `json:"apis"`
	// Libraries are the versions of the modules with the types of these APIs and the client of Kubernetes.
	Libraries map[string]string `json:"libraries,omitempty"`
}

// libraries are the modules of Libraries.
var libraries = []string{"k8s.io/api", "k8s.io/client-go", "kubevirt.io/api"}

// apiVersions returns the value of Info.APIs.
func apiVersions() []string {
	versions := slices.Concat(kubevirt.GroupVersions,
		[]schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.GroupVersion, admission.SchemeGroupVersion})
	names := make([]string, 0, len(versions))
	for _, v := range versions {
		names = append(names, v.String())
	}
	return names
}

// Read returns the Info of the running binary. A binary without build information has only the values of -ldflags: another tool than Go's may have linked it.
func Read() Info {
	build, found := debug.ReadBuildInfo()
	if !found {
		build = &debug.BuildInfo{}
	}
	return infoOf(build, stamp)
}

// infoOf returns the Info of a build. 'go build' embeds no settings of vcs with -buildvcs=false.
func infoOf(build *debug.BuildInfo, stamped string) Info {
	info := Info{
		Version: cmp.Or(stamped, build.Main.Version, "(devel)"), Revision: revision, Time: committed, Go: build.GoVersion,
		Platform: runtime.GOOS + "/" + runtime.GOARCH, APIs: apiVersions(),
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.time":
			info.Time = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	for _, module := range build.Deps {
		if slices.Contains(libraries, module.Path) {
			if info.Libraries == nil {
				info.Libraries = map[string]string{}
			}
			info.Libraries[module.Path] = module.Version
		}
	}
	return info
}

// String returns one line for people: the version, the revision with its time and whether files differed from it, and the version of Go.
func (i Info) String() string {
	text := i.Version
	if i.Revision != "" {
		text += ", revision " + i.Revision
		if i.Time != "" {
			text += " of " + i.Time
		}
		if i.Modified {
			text += ", modified"
		}
	}
	return text + ", " + i.Go
}

// detailLines returns the lines that the command 'version' prints after the line of --version.
func (i Info) detailLines() string {
	text := "platform: " + i.Platform + "\nAPIs: " + strings.Join(i.APIs, ", ") + "\n"
	var modules []string
	for _, name := range libraries {
		if v := i.Libraries[name]; v != "" {
			modules = append(modules, name+" "+v)
		}
	}
	if len(modules) == 0 {
		return text
	}
	return text + "libraries: " + strings.Join(modules, ", ") + "\n"
}

// Add adds the command 'version' and the flag --version to a program. The flag prints one line, as cobra's own --version does. The command prints more lines.
// Trap: a template for the version (SetVersionTemplate) would link text/template, which calls methods by name. The linker would keep every method of every
// linked type: the webhook would have 54 MB of code and tables instead of 41 MB.
func Add(root *cobra.Command) {
	root.Version = Read().String()
	name := root.DisplayName()
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this program and what it was built from", Args: cobra.NoArgs,
		Example: "  " + name + " version -o json",
	}
	output := cmd.Flags().StringP("output", "o", "text", "output format: text, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return printInfo(cmd.OutOrStdout(), name, *output) }
	root.AddCommand(cmd)
}

// document is an Info as -o json prints it.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Info
}

// printInfo prints the Info of the running binary as text, JSON or YAML. The first line of the text is the line of --version.
func printInfo(out io.Writer, name, format string) error {
	info := Read()
	var text []byte
	var err error
	switch format {
	case "text":
		text = []byte(name + " version " + info.String() + "\n" + info.detailLines())
	case "json":
		text, err = json.MarshalIndent(document{v1alpha1.CommandLineVersion, "Version", info}, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(document{v1alpha1.CommandLineVersion, "Version", info})
	default:
		err = fmt.Errorf("--output '%s' is not supported, use text, json or yaml", format)
	}
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}
