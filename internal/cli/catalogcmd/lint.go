package catalogcmd

import (
	"fmt"
	"io"
	"time"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/catalogs"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/spf13/cobra"
)

// lintRun is a run of 'catalog lint'.
type lintRun struct{ catalogOptions }

// runtimeUsage is the help text of --runtime.
const runtimeUsage = "what runs the guests of the catalog: 'kubevirt'; 'pod', a pod of Kiln for each VMI; 'node', Kiln on bare machines; or 'auto': no " +
	"runtime judges the objects"

// addRuntime adds --runtime.
func (o *catalogOptions) addRuntime(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Bench.Runtime, "runtime", workbench.RuntimeAuto, runtimeUsage)
	cmdutil.CompleteValues(cmd, "runtime", workbench.Runtimes...)
}

// catalogLintCommand returns 'catalog lint'. Findings are printed to standard output, and only faults to standard error.
// The default configuration has every feature gate on, because a catalog is meant for many clusters. --config judges for one cluster.
func catalogLintCommand(s *cmdutil.Session) *cobra.Command {
	o := &lintRun{newCatalogOptions(s)}
	cmd := &cobra.Command{
		Use:   "lint DIR|FILE|-|cluster|oci://HOST/REPOSITORY:VERSION",
		Short: "Check a catalog before it is published",
		Long: "Check a catalog before it is published: schemas, names, the labels below 'instancetype.kubevirt.io/' against the specs,\n" +
			"lifecycles, instancetypes with the same spec, and with Kiln's engine which instancetypes and preferences boot together on\n" +
			"which architectures. With --runtime it also names the objects with which this runtime starts no guest, and preferences that it\n" +
			"refuses with some instancetypes. Each finding has its line, rule and remedy.\n\n" +
			"The exit status is 1 if there are errors, with --strict also if there are warnings, and 2 if a file cannot be read.",
		Example: "  kubectl kiln catalog lint catalog/\n" +
			"  kustomize build catalog/ | kubectl kiln catalog lint - --strict\n" +
			"  kubectl kiln catalog lint catalog/ --runtime pod\n" +
			"  kubectl kiln catalog lint catalog/ -o sarif > catalog.sarif",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&o.Bench.Strict, "strict", false, "return the exit status 1 for warnings too")
	cmd.Flags().StringVar(&o.Bench.Config, "config", "",
		"file with KubeVirt's configuration, as the webhook's --config; default: KubeVirt's defaults with every feature gate on")
	o.addRuntime(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.lintCatalog(cmd, args[0]) }
	o.AddRegistry(cmd)
	o.AddOutput(cmd, "text", "text", "json", "sarif")
	o.Answers(cmd, "CatalogReport", lintReport{})
	return cmd
}

// lintReport is the JSON document of 'catalog lint'. The counts of objects show that a catalog without findings was not empty.
type lintReport struct {
	Source        string             `json:"source"`
	Instancetypes int                `json:"instancetypes"`
	Preferences   int                `json:"preferences"`
	Findings      []catalogs.Finding `json:"findings"`
	Errors        int                `json:"errors"`
	Warnings      int                `json:"warnings"`
	Notes         int                `json:"notes"`
}

// lintCatalog prints the findings in the format of -o, and returns the error for the exit status. It prints the report even if it returns an error, so that a
// pipeline can upload SARIF.
func (o *lintRun) lintCatalog(cmd *cobra.Command, source string) error {
	read, err := o.ReadCatalog(cmd.Context(), source)
	if err != nil {
		return err
	}
	findings, warnings, err := catalogs.Lint(cmd.Context(), &o.Bench, read, time.Now())
	o.Warn(warnings...)
	if err != nil {
		return err
	}
	report := lintReport{Source: read.Source, Findings: append([]catalogs.Finding{}, findings...)}
	report.Instancetypes, report.Preferences = read.Count()
	report.countFindings()
	switch o.Output {
	case "sarif":
		err = o.printSARIF(findings)
	case "json":
		err = o.Print(report)
	default:
		o.printFindings(report)
	}
	if err != nil {
		return err
	}
	return report.exitError(o.Bench.Strict)
}

// countFindings counts the findings by severity.
func (r *lintReport) countFindings() {
	for _, f := range r.Findings {
		switch f.Severity {
		case catalog.Error:
			r.Errors++
		case catalog.Warning:
			r.Warnings++
		case catalog.Note:
			r.Notes++
		}
	}
}

// exitError returns ErrUnanswered if a file or object could not be read, because its errors were not found, and otherwise ErrRejected if there are errors, or
// if strict, warnings.
func (r *lintReport) exitError(strict bool) error {
	for _, f := range r.Findings {
		if f.Rule == catalogs.RuleUnreadable {
			return cmdutil.ErrUnanswered
		}
	}
	if r.Errors > 0 || strict && r.Warnings > 0 {
		return cmdutil.ErrRejected
	}
	return nil
}

// printFindings prints the findings, and then one line with the counts.
func (o *lintRun) printFindings(r lintReport) {
	for _, f := range r.Findings {
		printFinding(o.Out, f)
	}
	fmt.Fprintln(o.Out, cmdutil.Printable(fmt.Sprintf("%s: %s and %s: %s, %s, %s", r.Source, cmdutil.Counted(r.Instancetypes, "instancetype"),
		cmdutil.Counted(r.Preferences, "preference"),
		cmdutil.Counted(r.Errors, "error"), cmdutil.Counted(r.Warnings, "warning"), cmdutil.Counted(r.Notes, "note"))))
}

// printFinding prints a finding with its remedy. The line begins with FILE:LINE, as in the output of compilers, so that editors and code hosts can jump there,
// or with the name of an object of a cluster.
func printFinding(out io.Writer, f catalogs.Finding) {
	at, object := f.Object, ""
	if f.File != "" {
		at = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.File != "" && f.Line == 0 { // the finding is about the whole file
		at = f.File
	}
	if f.Object != "" && f.File != "" {
		object = f.Object + ": "
	}
	fmt.Fprintln(out, cmdutil.Printable(fmt.Sprintf("%s: %s: %s%s [%s]", at, f.Severity, object, f.Message, f.Rule)))
	fmt.Fprintln(out, cmdutil.Printable("    "+f.Remedy))
}
