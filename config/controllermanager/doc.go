// Package controllermanager reads the configuration of programs that run many controllers.
//
// [Parse] reads the configuration of a whole program: what all controllers share, the block about the
// cloud, and a block for each controller. [Generic.Enabled] says which controllers run, and
// [ResyncPeriod] how often a cache is gone through again.
//
// [ParseLeaderMigration] reads a LeaderMigrationConfiguration, which says in which of two programs a
// controller runs while it moves from one to the other. [LeaderMigrationConfiguration.Lock] looks it up.
//
// Source: CTRLMGR-01 to CTRLMGR-13, LEADERMIG-01 to LEADERMIG-07.
package controllermanager
