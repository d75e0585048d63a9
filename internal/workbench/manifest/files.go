// Package manifest reads the objects of files, and finds the line of each field. A file is as hostile as a request of a tenant: it may come from anybody's
// repository.
package manifest

import (
	"bytes"
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
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Files are found as kubectl finds them. A file or a document that cannot be read as objects becomes an entry with a fault, so
// that everything else of a run is still judged.

// StandardInput is the name of the standard input in messages; '-' is its name among files.
const StandardInput = "standard input"

// Files are what the user named on the command line.
type Files struct {
	// Names are files, directories, patterns, URLs, or '-'.
	Names []string
	// Kustomizations are directories that hold one.
	Kustomizations []string
	// Catalog names further files, whose objects are read and not judged.
	Catalog []string
	// Namespace is that of namespaced objects that have none.
	Namespace string
	Stdin     io.Reader
}

// Named reports whether there is anything to judge.
func (f Files) Named() bool { return len(f.Names)+len(f.Kustomizations) > 0 }

// ErrKustomization is the fault of a file that is the input of kustomize, and no object of a cluster.
var ErrKustomization = errors.New("this is a kustomization, which is not built with -f: use -k with its directory")

// ReadNames decodes every object below the given files. It fails when a name does not exist.
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

// SetNamespaces sets the namespace of namespaced objects that have none, and removes it from objects of kinds without namespaces, as an API server does.
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

// expandName returns the files that a name stands for: itself, those of a directory with the extensions that kubectl reads, or those
// that match a pattern.
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
	// Without the separator WalkDir does not follow a symbolic link to a directory.
	// Trap: folders below are read too, which kubectl does with --recursive alone.
	err = filepath.WalkDir(name+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(resource.FileExtensions, filepath.Ext(path)) {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// readFile decodes the objects of one file.
func (f Files) readFile(path string, at *Positions) []Object {
	if path == "-" {
		raw, err := ReadBounded(StandardInput, f.Stdin)
		return parseFile(StandardInput, raw, err, at)
	}
	if slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) {
		return []Object{unreadableObject(path, ErrKustomization)}
	}
	if isURL(path) {
		raw, err := download(path)
		return parseFile(path, raw, err, at)
	}
	raw, err := ReadFile(path)
	return parseFile(path, raw, err, at)
}

// parseFile returns the objects of a file with this content; err is why it could not be read, which becomes the fault of its one entry.
func parseFile(file string, raw []byte, err error, at *Positions) (all []Object) {
	if err != nil {
		return []Object{unreadableObject(file, err)}
	}
	for _, text := range splitDocuments(file, raw, at) {
		all = append(all, text.objects()...)
	}
	return all
}

// unreadableObject returns the entry of a file that holds no objects. Its Fault names the file.
func unreadableObject(file string, fault error) Object {
	if !strings.Contains(fault.Error(), file) {
		fault = fmt.Errorf("%s: %w", file, fault)
	}
	return Object{Unstructured: &unstructured.Unstructured{}, source: source{file: file}, Fault: fault}
}

// buildKustomizations returns the objects of the kustomizations. The library's defaults are kubectl's: no plugins, and no file outside of the
// directory of a kustomization.
func (f Files) buildKustomizations() (all []Object) {
	for _, directory := range f.Kustomizations {
		raw, err := kustomize(directory)
		for _, one := range parseFile(directory, raw, err, &Positions{}) {
			one.built = true
			all = append(all, one)
		}
	}
	return f.SetNamespaces(all)
}

// kustomize builds a directory to one text of YAML documents.
func kustomize(directory string) ([]byte, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, err
	}
	raw, err := built.AsYaml()
	return bytes.TrimSpace(raw), err
}
