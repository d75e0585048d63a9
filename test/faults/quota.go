package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// full is how long etcd refuses writes.
	full = 10 * time.Second
	// ballast are the bytes of one value, about as many as etcd takes in a request.
	ballast = 1 << 20
	// first and beyond bound the keys of the ballast in base64: "/ballast/" and "/ballast0". The API server's begin with "/registry/".
	first, beyond = "L2JhbGxhc3Qv", "L2JhbGxhc3Qw"
)

// fillEtcd writes into etcd itself until it has no space left, leaves it so for a while, and does what an administrator does then: deletes, compacts,
// defragments and disarms the alarm. The API server sees nothing of the ballast: what it would cost there is no part of the fault.
func (s *stage) fillEtcd(ctx context.Context) error {
	value := base64.StdEncoding.EncodeToString(make([]byte, ballast))
	for i := range 2 * quota / ballast {
		key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "/ballast/%06d", i))
		err := s.callEtcd(ctx, "/v3/kv/put", `{"key":"`+key+`","value":"`+value+`"}`, nil)
		if err != nil && strings.Contains(err.Error(), "database space exceeded") {
			time.Sleep(full)
			return s.relieveEtcd(ctx)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("etcd takes more than its quota")
}

func (s *stage) relieveEtcd(ctx context.Context) error {
	var now struct {
		Header struct {
			Revision string
			Member   string `json:"member_id"`
		}
	}
	if err := s.callEtcd(ctx, "/v3/kv/deleterange", `{"key":"`+first+`","range_end":"`+beyond+`"}`, &now); err != nil {
		return err
	}
	for _, call := range [][2]string{
		{"/v3/kv/compaction", `{"revision":"` + now.Header.Revision + `","physical":true}`},
		{"/v3/maintenance/defragment", `{}`},
		{"/v3/maintenance/alarm", `{"action":"DEACTIVATE","alarm":"NOSPACE","memberID":"` + now.Header.Member + `"}`},
	} {
		if err := s.callEtcd(ctx, call[0], call[1], nil); err != nil {
			return err
		}
	}
	return nil
}

// callEtcd calls the JSON gateway of etcd's API on its socket.
func (s *stage) callEtcd(ctx context.Context, path, body string, answer any) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.on.EtcdSocket())
	}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd"+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to %s: %s", response.Status, path, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
