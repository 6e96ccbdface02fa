package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/tracing"
)

// Kubelets says how the server reaches what runs in a cluster: kubelets for logs, commands and ports of
// pods, and nodes, pods and services as their proxy. The zero value does what kube-apiserver does without
// flags: it shows no certificate, and does not verify those of kubelets.
type Kubelets struct {
	// Certificate returns what is shown to kubelets, and Authorities those of their certificates, for each
	// connection anew. Without Certificate none is shown, and without Authorities no kubelet is verified. The
	// certificates of pods and services are never verified, and they are shown none, as in kube-apiserver.
	Certificate func() (*tls.Certificate, error)
	Authorities func() *x509.CertPool

	// Addresses are the types of addresses of nodes, the preferred ones first. Default: Hostname,
	// InternalDNS, InternalIP, ExternalDNS, ExternalIP.
	Addresses []corev1.NodeAddressType

	dial func(ctx context.Context, network, address string) (net.Conn, error) // of tests
}

// gateSplitLogs is the feature that one of the two streams of a container can be asked for.
const gateSplitLogs = "PodLogsQuerySplitStreams"

// kubeletPort is that of kubelets whose nodes do not say another one.
const kubeletPort = 10250

// Bounds of a connection to something in the cluster. What comes after its head takes its time.
const (
	reachDial      = 30 * time.Second
	reachHandshake = 10 * time.Second
	reachHead      = 1 << 20 // bytes of the head of an answer
)

// reach are the ways into the cluster. It is nil where there are none.
type reach struct {
	addresses []corev1.NodeAddressType

	kubelets   http.RoundTripper // by name or address of a node, whatever it is
	unverified http.RoundTripper // the same, for who asks for logs without verification
	nodes      http.RoundTripper // the same as kubelets, at global addresses only
	others     http.RoundTripper // ports of nodes, pods and services, at global addresses only
}

func newReach(k *Kubelets, through *egress.Selector) *reach {
	if k == nil {
		return nil
	}
	tunnel := through.Dialer(egress.Cluster)
	anybody := &Kubelets{Certificate: k.Certificate, dial: k.dial}
	out := &reach{
		addresses: k.Addresses,
		kubelets:  k.transport(tunnel, false), unverified: anybody.transport(tunnel, false),
		nodes: k.transport(tunnel, true), others: (&Kubelets{dial: k.dial}).transport(tunnel, true),
	}
	if len(out.addresses) == 0 {
		out.addresses = NodeAddressTypes()
	}
	return out
}

// NodeAddressTypes returns all types of addresses of nodes, in the default order of [Kubelets].
func NodeAddressTypes() []corev1.NodeAddressType {
	return []corev1.NodeAddressType{
		corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeExternalDNS, corev1.NodeExternalIP,
	}
}

// transport makes connections for one request each, so that nothing is left open that nobody closes.
func (k *Kubelets) transport(tunnel egress.DialFunc, global bool) *http.Transport {
	dial := webhook.Dialer(tunnel, net.Dialer{Timeout: reachDial}, func(a netip.Addr) error {
		return checkAddress(a, global) // that a name has now, whatever it had a moment ago
	})
	if tunnel != nil && global {
		dial = resolved(dial)
	}
	if k.dial != nil {
		dial = k.dial
	}
	return &http.Transport{
		DialContext: dial, MaxResponseHeaderBytes: reachHead, DisableCompression: true, DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return k.secure(ctx, conn, address)
		},
	}
}

// secure begins TLS on a connection, with the certificate and the authorities of this moment.
func (k *Kubelets) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	config.ServerName, _, _ = net.SplitHostPort(address)
	if k.Authorities != nil {
		config.RootCAs = k.Authorities()
	} else {
		config.InsecureSkipVerify = true // as in kube-apiserver, which was not told whom to trust either
	}
	if k.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return k.Certificate() }
	}
	ctx, cancel := context.WithTimeout(ctx, reachHandshake)
	defer cancel()
	out := tls.Client(conn, config)
	if err := out.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return out, nil
}

var errNotGlobal = errors.New("address not allowed")

// checkAddress rejects addresses that are not global. A kubelet may be on this machine.
func checkAddress(a netip.Addr, global bool) error {
	if isGlobal(a) || !global && webhook.Plain(a).IsLoopback() {
		return nil
	}
	return errNotGlobal
}

// resolved resolves names here, so that a tunnel is asked for an address that was judged. A proxy may speak
// HTTP without TLS, as metadata services do, and whoever writes a node's status chooses the name.
func resolved(dial egress.DialFunc) egress.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			if err := checkAddress(a, true); err != nil {
				return nil, err
			}
		}
		return dial(ctx, network, net.JoinHostPort(found[0].Unmap().String(), port))
	}
}

// isGlobal reports whether an address leads neither to this machine, nor to its link, nor to many, nor to where a
// cloud tells the machine its secrets.
func isGlobal(a netip.Addr) bool {
	if !a.IsValid() {
		return false
	}
	a = webhook.Plain(a)
	return a.IsGlobalUnicast() && !webhook.IsMetadata(a)
}

// kubelet returns where the kubelet of a node is.
func (r *reach) kubelet(ctx context.Context, name string) (*url.URL, error) {
	n, err := registry.For[corev1.Node](ctx).AsSystem().Get(ctx, "", name)
	if err != nil {
		return nil, err
	}
	return r.kubeletOf(n)
}

func (r *reach) kubeletOf(n *corev1.Node) (*url.URL, error) {
	for _, kind := range r.addresses {
		at := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == kind })
		if at < 0 {
			continue
		}
		port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
		if port <= 0 {
			port = kubeletPort
		}
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(n.Status.Addresses[at].Address, strconv.Itoa(port))}, nil
	}
	return nil, told(fmt.Sprintf("no preferred addresses found; known addresses: %v", n.Status.Addresses))
}

// told is a fault of something in the cluster, which clients are told, unlike those of the server.
func told(message string) *status.Error {
	return status.Internal(errors.New(message)).WithMessage("Internal error occurred: " + message)
}

// maxRefusal is how much of the text of a kubelet's refusal is passed on.
const maxRefusal = 50_000

// log opens the log of a container at its kubelet.
func (r *reach) log(ctx context.Context, p *corev1.Pod, container string, q url.Values, anyKubelet bool) (io.ReadCloser, error) {
	at, err := r.kubelet(ctx, p.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	at.Path, at.RawQuery = "/containerLogs/"+p.Namespace+"/"+p.Name+"/"+container, q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, told(err.Error())
	}
	transport := r.kubelets
	if anyKubelet {
		transport = r.unverified
	}
	res, err := tracing.Send(req, transport.RoundTrip)
	if err != nil {
		return nil, told(fmt.Sprintf("Get %q: %v", at, err))
	}
	if res.StatusCode >= http.StatusOK && res.StatusCode <= http.StatusPartialContent {
		return res.Body, nil
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	return nil, refusedByKubelet(res.StatusCode, string(text), p.Name)
}

// refusedByKubelet is what a kubelet said instead of sending a log.
func refusedByKubelet(code int, text, pod string) error {
	switch {
	case code/100 == 3:
		return told(fmt.Sprintf("redirects forbidden in proxied requests (%d)", code))
	case code == http.StatusInternalServerError:
		return told(text)
	case code == http.StatusBadRequest:
		return status.BadRequest("%s", text)
	case code == http.StatusNotFound:
		return status.NotFound(meta.GroupResource{Resource: "pods/log"}, pod).WithMessage(
			fmt.Sprintf("the server could not find the requested resource ( pods/log %s)", pod))
	}
	return told(fmt.Sprintf("the kubelet answered with %d: %s", code, text)).WithCode(code)
}

// logQuery are the parameters of a log that the kubelet acts on.
func logQuery(o *corev1.PodLogOptions, split bool) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if split {
		q.Set("stream", corev1.LogStreamAll)
		if o.Stream != nil {
			q.Set("stream", *o.Stream)
		}
	}
	return q
}

// checkLog rejects parameters of a log that contradict each other or are out of range. split says whether one of
// both streams can be asked for.
func checkLog(o *corev1.PodLogOptions, split bool, f *status.Fields) {
	if o.TailLines != nil && *o.TailLines < 0 {
		f.At("tailLines").Invalid(*o.TailLines, "must be greater than or equal to 0")
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		f.At("limitBytes").Invalid(*o.LimitBytes, "must be greater than 0")
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		f.At("").Forbidden("at most one of `sinceTime` or `sinceSeconds` may be specified")
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		f.At("sinceSeconds").Invalid(*o.SinceSeconds, "must be greater than 0")
	}
	switch {
	case o.Stream == nil:
	case !split:
		f.At("stream").Forbidden("may not be specified")
	case !slices.Contains([]string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}, *o.Stream):
		f.At("stream").NotSupported(*o.Stream, corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout)
	case *o.Stream != corev1.LogStreamAll && o.TailLines != nil:
		f.At("").Forbidden("`tailLines` and specific `stream` are mutually exclusive for now")
	}
}
