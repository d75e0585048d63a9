// Package containerfile parses a Containerfile, so that tests can compare its image with the image that manifests/images builds.
package containerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/archive"
)

// Final is the last stage of a Containerfile.
type Final struct {
	// Copies are the targets of its COPY instructions.
	Copies []string
	Config archive.Config
}

// Read parses a Containerfile whose last stage starts from scratch. values replaces arguments such as "$VERSION" in labels. It fails for instructions that
// have no counterpart in the builder.
func Read(text string, values *strings.Replacer) (Final, error) {
	_, final, found := strings.Cut(text, "FROM scratch\n")
	if !found {
		return Final{}, errors.New("the image is not built from scratch")
	}
	out := Final{Config: archive.Config{Labels: map[string]string{}}}
	for line := range strings.Lines(final) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch instruction {
		case "", "ARG":
		case "COPY":
			out.Copies = append(out.Copies, words[len(words)-1])
		case "USER":
			out.Config.User = rest
		case "ENV":
			out.Config.Env = append(out.Config.Env, strings.ReplaceAll(rest, `"`, ""))
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &out.Config.Entrypoint); err != nil {
				return out, err
			}
		case "LABEL":
			key, value, _ := strings.Cut(rest, "=")
			out.Config.Labels[key] = values.Replace(strings.ReplaceAll(value, `"`, ""))
		default:
			return out, fmt.Errorf("'%s' has no counterpart in the builder", strings.TrimSpace(line))
		}
	}
	return out, nil
}
