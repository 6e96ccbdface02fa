// Package component has the parts that the configurations of schedulers, proxies and controller managers
// have in common, and what a program does with them.
//
// A [ClientConnectionConfiguration] becomes an http.Client that keeps to its rates.
// A [LeaderElectionConfiguration] becomes an election of package client. A [DebuggingConfiguration] says
// which profiles are served.
//
// The documents are those of the packages beside this one: config/controllermanager, config/scheduler
// and config/proxy. Source: CLIENTCONN-01 to CLIENTCONN-16.
package component
