// Package deploy tests the files under deploy: they are loaded as they are, and
// what they promise is tried.
//
// It is a Go module of its own, because the compose library is large: importers of
// Tidegate do not inherit it. `make test` runs it.
//
// # Words
//
//   - A template is a file that a deployer copies and changes, such as that of
//     a tenant. The tests copy and change it as the documents say.
//   - A stack is what a compose file names, each container as a process with the
//     same command line, environment and configuration files; only where it listens
//     and keeps its files is remapped.
//   - A user is one of the NATS users that the files define; see docs/deploying.md.
//
// # An example
//
//	server := startNATS(t, "acme", "beta")          // deploy/nats, and two tenants by its template
//	w := newWorld(t, server)                        // a store, and admission as its own user
//	nc := server.connect(t, "acme", "acme")         // the tenant's services
//
//	deploy/nats/*.conf ──▶ embedded nats-server ◀── admission ──▶ fault layer ──▶ embedded store
//	                          ▲        ▲                          (counts calls)
//	                        acme     beta
package deploy
