package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// Velero keeps a backup as an archive in the form of tar and gzip, with a file of JSON for each object:
// resources/RESOURCE/namespaces/NAMESPACE/NAME.json and resources/RESOURCE/cluster/NAME.json. If an API group has several versions, the archive has each object
// once more below resources/RESOURCE/VERSION/. Names and contents are not trusted, and nothing is written to a disk.

// archiveExtensions are the extensions of archives.
var archiveExtensions = []string{".tar.gz", ".tgz"}

// isArchive reports whether a path names an archive.
func isArchive(name string) bool {
	for _, extension := range archiveExtensions {
		if strings.HasSuffix(name, extension) {
			return true
		}
	}
	return false
}

// Limits of an archive. They bound what a small archive unpacks to.
const (
	maxArchiveBytes = 1 << 30
	maxArchiveFiles = 1_000_000
)

// addArchive adds the objects of a backup of Velero. Its errors do not name the archive.
func (d *Dump) addArchive(name string, at *Positions) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	// One more byte than allowed shows that there is more.
	limited := &io.LimitedReader{R: unzipped, N: maxArchiveBytes + 1}
	archive, found := tar.NewReader(limited), false
	for files := 0; ; files++ {
		entry, err := archive.Next()
		switch {
		case limited.N <= 0 || files > maxArchiveFiles:
			return fmt.Errorf("an archive has at most %d MiB and %d files: back up fewer namespaces", maxArchiveBytes>>20, maxArchiveFiles)
		case errors.Is(err, io.EOF) && found:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the archive has no objects below 'resources/': only backups of Velero are read")
		case err != nil:
			return err
		case entry.Typeflag != tar.TypeReg || !isBackedUpObject(entry.Name):
			continue
		}
		where := name + ":" + entry.Name
		if entry.Size > MaxObjectBytes {
			d.Named = append(d.Named, unreadableObject(where, fmt.Errorf("the object has more than %d MiB, which no API server accepts", MaxObjectBytes>>20)))
			continue
		}
		raw, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		found = true
		for _, document := range splitDocuments(where, bytes.TrimSpace(raw), at) {
			d.addItem(document)
		}
	}
}

// isBackedUpObject reports whether a file of an archive is an object in the version that the API server prefers. Secrets are not read.
func isBackedUpObject(name string) bool {
	parts := strings.Split(path.Clean(strings.TrimPrefix(name, "./")), "/")
	if !strings.HasSuffix(name, ".json") || parts[0] != "resources" || len(parts) < 2 || parts[1] == "secrets" {
		return false
	}
	return len(parts) == 5 && parts[2] == "namespaces" || len(parts) == 4 && parts[2] == "cluster"
}
