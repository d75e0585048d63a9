// Package manifest reads the objects of files, and finds the line of each field. Files are not trusted: they may come from anybody's
// repository.
package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Files are found as kubectl finds them. A file or a document that cannot be parsed becomes an Object with a Fault, so
// that all other objects of a run are still judged.

// StandardInput is the name of the standard input in messages; '-' is its name among files.
const StandardInput = "standard input"

// Files are the files that the user named on the command line.
type Files struct {
	// Names are files, directories, patterns, URLs, or '-'.
	Names []string
	// Kustomizations are directories with a kustomization.
	Kustomizations []string
	// BuildKustomization returns the YAML documents of a kustomization's directory. It is called only for Kustomizations.
	BuildKustomization func(directory string) ([]byte, error)
	// Catalog names further files. Named objects may refer to their objects, which are not judged.
	Catalog []string
	// Namespace is the namespace of namespaced objects without a namespace; empty means 'default'.
	Namespace string
	Stdin     io.Reader
}

// FileExtensions are the extensions of the files that kubectl reads in a directory: FileExtensions of k8s.io/cli-runtime/pkg/resource, a package that links
// kustomize and clients of a cluster.
var FileExtensions = []string{".json", ".yaml", ".yml"}

// kustomizationFiles are the names of a kustomization's file: RecognizedKustomizationFileNames of sigs.k8s.io/kustomize/api/konfig, a package that links most
// of kustomize.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// Named reports whether the user named files or kustomizations.
func (f Files) Named() bool { return len(f.Names)+len(f.Kustomizations) > 0 }

// ErrKustomization is the Fault of a kustomization's file.
var ErrKustomization = errors.New("this is a kustomization, which is not built with -f: use -k with its directory")

// ReadNames returns the objects of the given files and directories. It fails if a name does not exist.
func (f Files) ReadNames(names []string) (all []Object, err error) {
	at := &Positions{}
	for _, name := range names {
		found, err := expandName(name)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			all = append(all, f.readFile(path, at)...)
		}
	}
	return f.SetNamespaces(all), nil
}

// SetNamespaces sets the namespace of namespaced objects that have none, and removes the namespace from cluster-wide objects, as an API server does.
func (f Files) SetNamespaces(all []Object) []Object {
	for _, one := range all {
		switch {
		case ClusterKinds[one.GetKind()]:
			one.SetNamespace("")
		case one.Fault == nil && one.GetNamespace() == "":
			one.SetNamespace(cmp.Or(f.Namespace, "default"))
		}
	}
	return all
}

// ClusterKinds are the kinds that have no namespace.
var ClusterKinds = map[string]bool{
	instancetype.Kinds.Cluster: true, instancetype.PreferenceKinds.Cluster: true, v1alpha1.KindClusterGuestProfile: true, v1alpha1.KindGuestPolicy: true,
	v1alpha1.KindFrontendProfile: true, "HostProfile": true, "Namespace": true,
}

// expandName returns the files that a name means: the file itself, the files of a directory with the extensions that kubectl reads, or the
// files that match a pattern.
func expandName(name string) (found []string, err error) {
	if name == "-" || isURL(name) {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		matches, _ := filepath.Glob(name) // a malformed pattern matches nothing
		for _, match := range matches {
			below, err := expandName(match)
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("the path '%s' does not exist", name)
		}
		return found, nil
	}
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	// Without the separator, WalkDir does not follow a symbolic link to a directory.
	// Trap: subdirectories are read, too, which kubectl does only with --recursive.
	err = filepath.WalkDir(name+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(FileExtensions, filepath.Ext(path)) && !isSpecial(path) {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

// isSpecial reports whether a path of a directory leads to neither a file nor a missing one. Opening a pipe would wait for a writer.
func isSpecial(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// readFile decodes the objects of one file.
func (f Files) readFile(path string, at *Positions) []Object {
	name, raw, err := f.readRaw(path)
	return parseFile(name, raw, err, at)
}

// readRaw returns the content of a file, and its name in messages.
func (f Files) readRaw(path string) (name string, raw []byte, err error) {
	switch {
	case path == "-":
		raw, err = ReadBounded(StandardInput, f.Stdin)
		return StandardInput, raw, err
	case slices.Contains(kustomizationFiles, filepath.Base(path)):
		return path, nil, ErrKustomization
	case isURL(path):
		raw, err = downloadURL(path)
	default:
		raw, err = ReadFile(path)
	}
	return path, raw, err
}

// parseFile returns the objects of a file with this content. If err is not nil, the file could not be read, and the only entry has this Fault.
func parseFile(file string, raw []byte, err error, at *Positions) (all []Object) {
	if err != nil {
		return []Object{unreadableObject(file, err)}
	}
	for _, text := range splitDocuments(file, raw, at) {
		all = append(all, text.decodeObjects()...)
	}
	return all
}

// unreadableObject returns the entry for a file or document that cannot be parsed. Its Fault names the file.
func unreadableObject(file string, fault error) Object {
	if !strings.Contains(fault.Error(), file) {
		fault = fmt.Errorf("%s: %w", file, fault)
	}
	return Object{Unstructured: &unstructured.Unstructured{}, source: source{file: file}, Fault: fault}
}

// buildKustomizations returns the objects of the kustomizations.
func (f Files) buildKustomizations() (all []Object) {
	for _, directory := range f.Kustomizations {
		raw, err := f.BuildKustomization(directory)
		for _, one := range parseFile(directory, raw, err, &Positions{}) {
			one.built = true
			all = append(all, one)
		}
	}
	return f.SetNamespaces(all)
}
