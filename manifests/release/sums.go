package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// writeSums writes the digests of all files in the format of 'sha256sum --check'.
func (r release) writeSums(context.Context) error {
	files, err := os.ReadDir(r.out) // in the order of the names
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, file := range files {
		sum, err := fileDigest(filepath.Join(r.out, file.Name()))
		if err != nil {
			return err
		}
		list.WriteString(sum + "  " + file.Name() + "\n")
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list.String()), 0o644)
}

func fileDigest(name string) (sum string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}
