// Command plimsoll is the server and its command line.
//
// Results go to stdout, logs and errors to stderr. Logs never hold what was said
// in a thread, nor the token. The exit status is 0 if it worked, 1 if it failed
// and 2 if the command line was not understood.
//
// A home is owned by at most one process. Commands that need a thread talk to the
// owner through HOME/plimsoll.sock; if there is none they own the home themselves
// for as long as they run and send the same HTTP requests to the same handlers in
// process (client.go), so there is one code path.
//
// This is the only package that names concrete adapters (adapters.go) and the
// journal's storage (runtime.go).
package main
