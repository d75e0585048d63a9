package manifest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// maxBytes is the maximal size of a file, of the standard input or of the content of a URL. A list of 10,000 VMs has about 30 MB.
const maxBytes = 64 << 20

// downloadLimit bounds the duration of a download. It is a variable for tests.
var downloadLimit = time.Minute

// ReadBounded reads a file or stream to its end. It fails if there are more than 64 MiB. Errors begin with name.
func ReadBounded(name string, from io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("%s has more than %d MiB", name, maxBytes>>20)
	}
	return raw, nil
}

// ReadFile is os.ReadFile for files of at most 64 MiB, because a path may name a device without an end.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadBounded(path, file)
}

// downloadURL reads a URL that the user gave, as kubectl does. It fails after downloadLimit.
func downloadURL(url string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), downloadLimit, fmt.Errorf("the download takes longer than %s", downloadLimit))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return ReadBounded(url, response.Body)
}
