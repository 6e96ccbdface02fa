// Package bbolt is a storage backend in one file: durable, with its history, and
// nothing to run beside the program. Its contract is that of package storage; see
// there first. For tests there is storage/memory. One process has a file; there is no
// backend yet on which several server processes share a store.
//
// [Open] makes or opens the store, [DB.Backup] copies it while it runs. Several
// stores may be open at once, each file only once.
//
// # The file
//
// go.etcd.io/bbolt gives a B+tree in a file, with copy-on-write transactions: after
// a crash the file is as after some whole transaction. On it lies a log. Its key is
// the revision and the number of the change within the commit, its value the record:
// key, value, time, where the key's previous record is, and a CRC-32C over all of
// it. Records are appended and never changed; compaction removes them. A state
// beside the log says what it adds up to: how many records, a sum of their
// fingerprints, the newest, the compacted and the reserved revision. It is written
// in every transaction. There is no index by key in the file: it would be a second
// truth and double the pages written. It is built in memory when the store is
// opened: about 100 bytes and the key itself for each key, 50 for each superseded
// record until it is compacted.
//
// # What is verified, and when
//
// bbolt has no checksums on its pages and trusts what it maps: of damaged files it
// serves many as if nothing were wrong, and dies of some. So Open first reads the
// whole file with code of its own that trusts nothing (image.go): meta pages, every
// page and every element in its place, every record, the chain of records of each
// key, and the sums of the state. What is damaged is refused as a whole, before
// bbolt sees it and before a byte is changed; there is no telling what an API object
// that vanished would have said. Later each record is verified again whenever it is
// read. Damage found then, also in the form of a memory fault, fails that read and
// stops commits, since they would go into a file that cannot be opened again. A
// damaged meta page is refused even though the other one is sound: bbolt would step
// back by one transaction and forget, without a word, what was acknowledged with
// it. That can only be told from a meta page torn in a crash by the size of a disk's
// atomic write, and the 80 bytes in question lie within one sector.
//
// # Commits
//
// One goroutine writes (writer.go). It takes all commits that wait as a group,
// decides them in order against what is published plus what the group has decided
// before, writes them in one transaction, which is two syncs of the disk (data, then
// meta page), publishes, and answers. So with many writers the disk's latency is
// shared, and each commit still has its revision. When a write or sync fails, the
// group fails with storage.ErrUnknownOutcome, nothing of it is published, and
// commits stop for good: an operating system may drop the pages of a failed sync and
// report success for the next. [DB.Healthy] says why; reads go on. Opening the file
// again shows what had become of the group. This includes a full disk: make room,
// then open again. One thing cannot be caught: after a failed write bbolt looks at
// every page in a goroutine of its own, and if the disk by then cannot even be read,
// that ends the process. Nothing acknowledged is lost by it.
//
// Revisions are reserved in the file before they are issued, some thousand at a time,
// and a new session begins after the last reservation. So a revision is not used
// again even if its commit failed without a trace.
//
// # Choices, with figures
//
// Measured on two cores and a virtual disk with a sync of about 40 µs, values of
// 1 KiB; the benchmarks are in bench_test.go. A commit alone takes 0.09 ms, one of 64
// writers' 0.008 ms; a get 3 µs, a page of 500 records 0.55 ms, opening 100,000
// records 0.15 s.
//
//   - The list of free pages stays out of the file (bbolt's NoFreelistSync), and in
//     memory is a hash map. With 70,000 free pages after a compaction, writing it cost
//     each commit 0.7 ms of processor time instead of 0.08; not having it costs Open
//     0.06 s of 0.18 s for a file of 400 MiB.
//   - 16 GiB of address space are reserved for the map of the file on 64-bit systems
//     (InitialMmapSize), which takes no memory. A map that must grow waits for all
//     readers, and new readers wait for it; [DB.Check] reads for seconds.
//   - Pages have the system's size. 16 KiB instead of 4 made Open faster by a quarter
//     and commits no faster, at four times the bytes per sync.
//   - Reads copy values out of a short transaction, and none is open while a caller
//     has the floor: pages are not freed, and the file grows, while one is.
//   - The newest 4 MiB of changes are kept in memory, so that watches that keep up
//     never read the file.
//   - Pages of the map that were looked at are given back to the system, on Linux
//     after about every 8 MiB (MADV_DONTNEED); they stay in its cache. Without that
//     the whole file is counted as memory of the process. A get of a random record
//     costs 3 µs of processor time more, commits no more that could be measured.
//
// The file does not shrink; pages freed by compaction are used again. Backup writes a
// file without them.
package bbolt
