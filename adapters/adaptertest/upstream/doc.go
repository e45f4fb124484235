// Package upstream plays a model server from a cassette, for tests, the README,
// the demo and the benches.
package upstream
