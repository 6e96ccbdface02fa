// Package bbolt is a storage backend in one file. It is durable, keeps its history, and needs no
// other program. Package storage defines its contract; read that first. For tests there is
// storage/memory. Only one process can use a file; several servers can share storage/etcd.
//
// [Open] opens or creates the store, and [DB.Backup] copies it while it runs. [Examine] reads what is
// left of a damaged file. A process may open several stores, but each file only once.
//
// # The file
//
// go.etcd.io/bbolt provides a B+tree in a file with copy-on-write transactions: after a crash the
// file is in the state after some complete transaction. The tree holds a log. A key of the log is the
// revision of a change and its number within the commit. Its value is the record: key, value,
// time, the position of the key's previous record, and a CRC-32C over all of it. Records are
// appended and never changed; compaction removes them.
//
// A commit of several revisions says in each of its records where it begins and ends. Files from
// before there were such commits have format 2. Open copies such a file to "<path>.format-2" and
// raises its format to 3, which older programs refuse to open.
//
// A state next to the log holds its totals: the number of records, a sum of their fingerprints, and
// the newest, the compacted and the reserved revision. Every transaction writes it. The file has no
// index by key, which would be a second source of truth and double the written pages. Open builds
// the index in memory: about 100 bytes plus the key for each key, and 50 bytes for each superseded
// record until it is compacted.
//
// # What is verified, and when
//
// bbolt has no checksums on its pages and trusts what it maps. It serves many damaged files as if
// nothing were wrong, and crashes on some. So Open first reads the whole file with its own code
// (image.go), which trusts nothing: meta pages, the place of every page and element, every record,
// the chain of records of each key, and the totals of the state. It rejects a damaged file as a
// whole, before bbolt sees it and before a byte is changed, because nobody can know what a missing
// object contained.
//
// Later every read verifies its records again. Damage found then, including a memory fault, fails
// the read and stops commits, which would go into a file that cannot be opened again.
//
// A damaged meta page is rejected even if the other one is sound: bbolt would go back by one
// transaction and silently lose its acknowledged commits. A meta page torn in a crash would look
// the same. But a disk writes a sector atomically, and the 80 bytes of a meta page lie within one.
//
// # Commits
//
// One goroutine writes (writer.go). It takes all waiting commits as a group and decides them in
// order, against the published state and the earlier commits of the group. It writes them in one
// transaction, which needs two syncs of the disk (data, then meta page), publishes them, and
// answers. So many writers share the disk's latency, and each commit still has its own revision.
//
// If a write or sync fails, the group fails with storage.ErrUnknownOutcome, nothing of it is
// published, and commits stop for good: an operating system may drop the pages of a failed sync and
// report success for the next one. [DB.Healthy] gives the reason; reads continue. Opening the file
// again shows what happened to the group.
//
// A full disk is no such failure (space.go). The file has its blocks before a transaction writes them,
// so a put without room is refused with storage.ErrNoSpace before anything happened. Reads, watches
// and deletes go on: a reserve at the end of the file is for them, see [WithReserve]. Puts go on when
// the file can grow again, or when compaction has freed pages in it; the store looks for that twice in
// a second. [DB.Room] gives the reason. On file systems that write to new blocks each time (btrfs,
// ZFS) the reserve is no promise; what is refused there has not happened either.
//
// A file that is removed, moved or replaced while it is open would take commits as before, and the next
// start would not find them. Each transaction looks whether the file is still in its place (site.go);
// if it is not, commits stop before anything of them is written. [DB.Ready] looks, too.
//
// One case cannot be caught. After a failed write bbolt reads every page in its own goroutine. If
// the disk cannot be read by then, the process ends. No acknowledged commit is lost.
//
// Revisions are reserved in the file before they are issued, about a thousand at a time, and a new
// session starts after the last reservation. So no revision is used again, even if its commit
// failed without a trace.
//
// # Choices, with figures
//
// Measured on two cores and a virtual disk with a sync of about 40 µs, values of 1 KiB; the
// benchmarks are in bench_test.go. A single commit takes 0.09 ms, one of 64 concurrent ones 0.008
// ms; a get 3 µs, a page of 500 records 0.55 ms, opening 100,000 records 0.15 s.
//
//   - The list of free pages is not in the file (bbolt's NoFreelistSync); in memory it is a hash
//     map. With 70,000 free pages after a compaction, each commit took 0.7 ms of processor time
//     instead of 0.08 to write it. Open takes 0.06 s longer without it, of 0.18 s for a file of 400
//     MiB.
//   - On 64-bit systems the map of the file reserves 16 GiB of address space (InitialMmapSize),
//     which takes no memory. A map that must grow waits for all readers, and new readers wait for
//     it; [DB.Check] reads for seconds.
//   - Pages have the system's size. With 16 KiB instead of 4 KiB, Open was a quarter faster,
//     commits were no faster, and each sync wrote four times the bytes.
//   - Reads copy values out of a short transaction. No transaction is open while a caller runs,
//     because bbolt frees no pages, and the file grows, while one is.
//   - The newest 4 MiB of changes stay in memory, so watches that keep up never read the file.
//   - On Linux, pages of the map are released to the system after about every 8 MiB of reads
//     (MADV_DONTNEED); they stay in its cache. Otherwise the whole file would count as memory of
//     the process. A get of a random record takes 3 µs of processor time longer; commits show no
//     difference.
//
// The file does not shrink, but it reuses pages that compaction has freed. Backup writes a file
// without them.
package bbolt
