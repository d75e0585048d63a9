package cmdutil

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/nearest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ExplainUsage makes all commands below root explain wrong usage in words about the command. Cobra's own messages count arguments that they do not name, such
// as "accepts 2 arg(s), received 0", and quote Go's functions, such as "strconv.ParseBool".
func ExplainUsage(root *cobra.Command) {
	root.SetFlagErrorFunc(explainFlag) // for all commands below it
	explainArguments(root)
}

// explainArguments wraps the checks of arguments of all commands without subcommands.
func explainArguments(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		explainArguments(child)
	}
	if cmd.HasSubCommands() {
		return
	}
	count := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error { // cobra checks the arguments first, then required and exclusive flags
		if count != nil && count(cmd, args) != nil {
			return fmt.Errorf("%s: the usage is '%s', see '%s --help'", givenArguments(args), withoutFlags(cmd), cmd.CommandPath())
		}
		if missing := missingFlags(cmd); len(missing) > 0 {
			return fmt.Errorf("missing %s, see '%s --help'", strings.Join(missing, " and "), cmd.CommandPath())
		}
		if both := exclusiveFlags(cmd); len(both) > 0 {
			return fmt.Errorf("%s exclude each other: give one of them", strings.Join(both, " and "))
		}
		return nil
	}
}

// explainFlag returns an error about a flag that names the flag with its dashes, and that does not quote Go's functions.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if likely := nearest.Name(unknown.GetSpecifiedName(), names); likely != "" {
			return fmt.Errorf("unknown flag --%s: did you mean --%s?", unknown.GetSpecifiedName(), likely)
		}
	case errors.As(err, &missing):
		err = fmt.Errorf("%s has no value", longAndShort(missing.GetFlag()))
	case errors.As(err, &invalid):
		err = explainValue(invalid)
	}
	return fmt.Errorf("%w, see '%s --help'", err, cmd.CommandPath())
}

// explainValue returns an error about the value of a flag.
func explainValue(invalid *pflag.InvalidValueError) error {
	var number *strconv.NumError
	flag := invalid.GetFlag()
	text := fmt.Sprintf("--%s is '%s'", flag.Name, invalid.GetValue())
	switch kind := flag.Value.Type(); {
	case !errors.As(invalid.Unwrap(), &number):
		return fmt.Errorf("%s: %w", text, invalid.Unwrap())
	case kind == "bool":
		return fmt.Errorf("%s, must be true or false", text)
	case errors.Is(number.Err, strconv.ErrRange):
		return fmt.Errorf("%s, which is too large or too small", text)
	case strings.HasPrefix(kind, "uint"):
		return fmt.Errorf("%s, must be a whole number, and not negative", text)
	default:
		return fmt.Errorf("%s, must be a whole number", text)
	}
}

// givenArguments names the arguments of a command, such as "2 arguments ('a', 'b')".
func givenArguments(args []string) string {
	if len(args) == 0 {
		return "no argument"
	}
	return fmt.Sprintf("%s ('%s')", Counted(len(args), "argument"), strings.Join(args, "', '"))
}

// withoutFlags returns the usage of a command without cobra's word for its flags.
func withoutFlags(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

// missingFlags returns the flags that a command requires and that are not given, with their shorthands.
func missingFlags(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true") && !f.Changed {
			names = append(names, longAndShort(f))
		}
	})
	return names
}

// longAndShort returns the name of a flag, such as "--output (-o)".
func longAndShort(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + " (-" + f.Shorthand + ")"
}

// exclusive is cobra's annotation of flags of which only one may be given. Its values are the names of the flags of a group, separated by spaces.
const exclusive = "cobra_annotation_mutually_exclusive"

// exclusiveFlags returns flags that are given together although they exclude each other.
func exclusiveFlags(cmd *cobra.Command) (names []string) {
	if cmd.ValidateFlagGroups() == nil {
		return nil
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, group := range f.Annotations[exclusive] {
			given := slices.DeleteFunc(strings.Fields(group), func(name string) bool { return !cmd.Flags().Changed(name) })
			if len(given) > 1 && len(names) == 0 {
				for _, name := range given {
					names = append(names, "--"+name)
				}
			}
		}
	})
	return names
}
