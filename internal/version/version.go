// Package version reports what a binary was built from.
package version

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// stamp is the output of 'git describe', set by the Makefile with -ldflags: a build without -buildvcs, or from an archive, has no revision. The
// linker can set variables only.
var stamp string

// Info is what a binary was built from. Unknown fields are empty.
type Info struct {
	// Version is the Makefile's stamp, else the module's version, else '(devel)'.
	Version string `json:"version"`
	// Revision of the repository, when it was committed, and whether files differed from it.
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// Read returns the Info of the running binary. A binary without build information, such as one that was linked by other tools than Go's, has the
// stamp alone.
func Read() Info {
	build, found := debug.ReadBuildInfo()
	if !found {
		build = &debug.BuildInfo{}
	}
	return of(build, stamp)
}

// of reads the settings that 'go build' embeds. They are absent with -buildvcs=false.
func of(build *debug.BuildInfo, stamped string) Info {
	info := Info{Version: cmp.Or(stamped, build.Main.Version, "(devel)"), Go: build.GoVersion}
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

// Add adds the command 'version' and the flag --version to a program.
func Add(root *cobra.Command) {
	root.Version = Read().String()
	name := root.DisplayName()
	root.SetVersionTemplate(name + " {{.Version}}\n")
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this program and what it was built from", Args: cobra.NoArgs,
		Example: "  " + name + " version -o json",
	}
	output := cmd.Flags().StringP("output", "o", "text", "output format: text, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return write(cmd.OutOrStdout(), name, *output) }
	root.AddCommand(cmd)
}

// write prints the Info in a format. The text line is what --version prints too.
func write(out io.Writer, name, format string) error {
	info := Read()
	var text []byte
	var err error
	switch format {
	case "text":
		text = []byte(name + " " + info.String() + "\n")
	case "json":
		text, err = json.MarshalIndent(info, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(info)
	default:
		err = fmt.Errorf("--output '%s' is not supported, use text, json or yaml", format)
	}
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}
