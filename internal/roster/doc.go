// Package roster puts the processes of services on NATS's own list of services,
// with what there is to say of each: how much of the change feed is its own, and
// how far it is behind. `tidegate services` prints the list, and so does every tool
// that knows NATS micro services ($SRV.PING, INFO and STATS).
//
//	$SRV.STATS ──▶ each process ──▶ its status, found out when it is asked for
//
// A process is on the list from when it works until it is told to stop.
//
//	leave, err := roster.Join(nc, roster.Entry{Service: api.ServiceRelay, Version: "1.2.3", Status: r.status, Log: log})
//	defer leave()
package roster
