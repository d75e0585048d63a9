module github.com/kilnvm/kiln/test/guest/vault

go 1.26.0

require github.com/google/go-tpm v0.9.8

require golang.org/x/sys v0.8.0 // indirect
