// Command memory shows what objects cost that a server keeps in memory.
//
//	make memory ARGS='-objects 1000000'
//
// It fills a bbolt file with copies of one object of 1 KiB under different names, opens it as a
// restarted server does, and prints a line of JSON: processor time and wall time until the server is
// ready, the memory of an object beyond its JSON, heap objects, resident memory, and the processor
// time of one cycle of garbage collection. Bytes and counts do not depend on what else the machine
// does; times do.
package main
