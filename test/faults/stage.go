package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// quota of etcd in bytes: enough for all rows, and few enough to be filled in seconds.
const quota = 768 << 20

// stage is the cluster in which something breaks: two replicas each of webhook and controller, a Service before the webhook.
type stage struct {
	options
	on      *cluster.Cluster
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// began is when the control plane had started.
	began time.Time
	// space is the namespace of the fault that is tried.
	space string
}

// startStage starts the cluster and builds the other programs that the chosen faults need.
func startStage(ctx context.Context, o options) (*stage, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "test", "faults")); err != nil {
		return nil, fmt.Errorf("run it in the repository: %w", err)
	}
	dir, err := cluster.Dir("kiln-faults")
	if err != nil {
		return nil, err
	}
	s := &stage{options: o}
	s.on, err = cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Replicas: 2, Drain: 5 * time.Second, // as in manifests/webhook
		Plane: []string{"--restart"}, Env: []string{fmt.Sprintf("ETCD_QUOTA_BACKEND_BYTES=%d", quota)}, Progress: os.Stderr,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.began = time.Now()
	if err := s.prepare(ctx); err != nil {
		return nil, s.end(err)
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context) (err error) {
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.on.Kubeconfig); err != nil {
		return err
	}
	s.config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	if s.dynamic, err = dynamic.NewForConfig(s.config); err != nil {
		return err
	}
	for _, f := range chosenFaults(s.options) {
		switch {
		case strings.Contains(f.name, "another binary"):
			err = errors.Join(err, s.buildPrograms(ctx, "next", s.on.Root, "-ldflags", "-X github.com/kilnvm/kiln/internal/version.stamp=next"))
		case strings.Contains(f.name, "clocks") && !s.isBuilt("webhook-skewed"):
			err = errors.Join(err, s.skewedPrograms(ctx))
		case f.old && !s.isBuilt("webhook-old"):
			err = errors.Join(err, s.oldPrograms(ctx))
		}
	}
	return errors.Join(err, s.on.Catalog(ctx))
}

// end ends the cluster. After an error the logs are kept and named.
func (s *stage) end(err error) error {
	err = errors.Join(err, s.on.Close())
	if err == nil {
		return os.RemoveAll(s.on.Dir)
	}
	return fmt.Errorf("%w\nlogs: %s", err, s.on.Dir)
}

// servedCertificate returns the certificate that a connection to the webhook gets. Trap: cert-controller gives all of its certificates the same serial number.
func (s *stage) servedCertificate(ctx context.Context) (string, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it asks which one is served
	connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.on.Webhook, "https://"))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return string(connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw), nil
}

// retryUntil asks again and again until there is no error, or the time is over.
func retryUntil(ctx context.Context, patience time.Duration, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", patience, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
