// Package proc runs programs: the only place where children of the server are
// started, whatever for.
//
// Guarantees:
//
//   - A child is started from a list of arguments. There is no shell, so nothing in
//     an argument is interpreted.
//   - Its environment is what the caller gives, no more; Environ takes from the
//     server's what any program needs. It inherits standard I/O and no other file that Go
//     opened.
//   - It leads a session and a process group of its own, without a terminal. When it
//     ends, is killed or runs out of time, whatever is left of the group is killed
//     with it, so that a child leaves nothing behind that did not mean to escape.
//   - It is always reaped. The group is signalled only while its leader is there, as
//     a zombie at least, so that a signal never reaches a stranger who got its number.
//   - On Linux it is killed when the server dies, kill -9 included. Its own children
//     are not, unless it has a family: they see the end of their input.
//   - On Linux whatever a child with a family started ends with it and with the server,
//     also who escaped from the group, unless it cleaned its environment. A second process
//     of this program watches for the end of the server; it does nothing until then.
//   - What it prints is taken until the end and kept up to a bound, so that a child
//     never blocks on a full pipe, and a flood costs no memory. Who escapes from the
//     group and keeps the output open is not waited for.
package proc
