// Package config reads the documents that say how a server authorizes, encrypts and is traced, and follows
// their files.
//
// [ParseAuthorization] reads an AuthorizationConfiguration, which names the authorizers of a server in
// their order and says how webhooks are asked. [OpenAuthorization] makes an authorizer of a file and
// follows the file: a good change takes effect within a second, and a bad one not at all.
//
// [ParseTracing] reads a TracingConfiguration, which the module tracing/otel carries out.
//
// Documents are YAML or JSON, of the API group apiserver.config.k8s.io and one of the versions v1,
// v1beta1 and v1alpha1, which have the same fields. Each problem names its field. The document
// AuthenticationConfiguration belongs to package authn/jwt, and audit.Policy to package audit. The
// documents of schedulers, proxies and controller managers are in packages below this one.
// Source: CFG-01 to CFG-05, AUTHZCFG-01 to AUTHZCFG-21.
package config
