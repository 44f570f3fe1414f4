// Package worker holds the code that the services of the change feed share: checks of
// the configuration, membership of the feed's group, the start and the stop, and the
// place on the list of services. A service is its handler and a worker.
//
// # Words
//
//   - A worker is a process of a service.
//   - An instance is the entry of a worker on NATS's list of services.
//
// # The list of services
//
//	$SRV.STATS ──▶ each instance ──▶ its status, computed for each request
//
// `tidegate services` prints the list, and so does every tool that knows NATS micro
// services ($SRV.PING, INFO and STATS). The list shows a worker from the moment it
// works until it is told to stop. The status has the worker's share of the feed and its lag.
//
//	w, err := worker.New(worker.Config{Service: api.ServiceArchiver, NATS: nc, Member: name, …})
//	group, err := w.Group(handle, retention, tuning)
//	err = w.Run(ctx, worker.Work{Run: group.Run, Status: group.Status})
package worker
