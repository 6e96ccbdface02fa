// Package proxy reads the configuration of network proxies, and chooses the mode of a proxy.
//
// [Parse] reads a KubeProxyConfiguration. [Configuration.Choose] returns the mode that the document asks
// for, or the best that can be used. Documents are YAML or JSON, of the group kubeproxy.config.k8s.io,
// version v1alpha1. Source: PROXY-01 to PROXY-14.
package proxy
