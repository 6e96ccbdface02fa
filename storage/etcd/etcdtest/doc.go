// Package etcdtest starts etcd in tests: clusters of one or more members on loopback addresses and
// temporary directories. Each member is a process of its own, so that a test can kill and pause it. The
// process is the test program itself, started again; that needs a TestMain which calls [Main].
//
// Its tests are those of package storage/etcd that need a server.
package etcdtest
