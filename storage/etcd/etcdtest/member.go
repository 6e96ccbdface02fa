package etcdtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberVariable is the environment variable that makes the test program a member.
const memberVariable = "KINDWRIGHT_ETCDTEST_MEMBER"

// Main runs the tests, or a member in a process that [Start] began. It does not return.
func Main(m *testing.M) {
	settings := os.Getenv(memberVariable)
	if settings == "" {
		os.Exit(m.Run())
	}
	if err := serve(settings, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// memberSettings is what a member's process is told.
type memberSettings struct {
	Options
	Name, Dir      string
	Client, Peer   string // URLs to listen on
	AdvertisePeer  string // where other members reach it
	Initial, State string
}

// ready is the line that a member writes once it serves.
const ready = "ready"

// serve runs a member until its standard input ends, as it does when the test ends in whatever way.
func serve(settings string, in io.Reader, out io.Writer) error {
	var s memberSettings
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		return err
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	}
	if _, err := fmt.Fprintln(out, ready); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

func (s *memberSettings) config() (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster, c.ClusterState = s.Name, s.Dir, s.Initial, s.State
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	// Nothing in a test outlives the machine.
	c.UnsafeNoFsync, c.EnableGRPCGateway = true, false
	c.TickMs, c.ElectionMs = s.ElectionMs/10, s.ElectionMs
	c.QuotaBackendBytes = s.QuotaBytes
	if s.Cert != "" {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = s.Cert, s.Key
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = s.ClientCA, s.ClientCA != ""
	}
	for _, e := range []struct {
		text string
		to   *[]url.URL
	}{{s.Client, &c.ListenClientUrls}, {s.Peer, &c.ListenPeerUrls}, {s.AdvertisePeer, &c.AdvertisePeerUrls}} {
		u, err := url.Parse(e.text)
		if err != nil {
			return nil, err
		}
		*e.to = []url.URL{*u}
	}
	c.AdvertiseClientUrls = c.ListenClientUrls
	return c, nil
}
