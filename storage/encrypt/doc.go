// Package encrypt keeps the values of objects encrypted in any backend, in the form of Kubernetes.
//
// A [Backend] wraps another one. Its [Rule]s say which resources are encrypted and how: the first
// [Provider] of a resource writes, and all of them read. A value begins with "k8s:enc:", the
// provider and the name of its key, byte for byte as kube-apiserver writes it. What the provider makes
// of it follows. So keys can change while a server runs: [Backend.Use] replaces the rules, and
// [Backend.Outdated] says which records still have an old key.
//
// [AESGCM] and [KMS] authenticate the place of a value, too, so nobody can move it to another object.
// A value that cannot be decrypted hides nothing else: its record has an Err that wraps
// storage.ErrUnreadable.
//
// With KMS a process or a module of hardware holds the key. It protects seeds, from which the keys of
// values are derived, so it is asked rarely and may be away for a while; see [Plugin].
//
// Package config reads Kubernetes' EncryptionConfiguration, follows its file, and makes rules of it.
// Keys, versions and sizes of objects are not secret: they stay readable in the store.
// Source: ENC-01 to ENC-06.
package encrypt
