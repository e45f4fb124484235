// Package plimsoll holds what the whole module shares: the description of its
// HTTP interface. The file stands at the root, which only a package at the root
// can embed.
package plimsoll

import _ "embed"

// OpenAPI is the description of the HTTP interface, OpenAPI 3.1, written by
// cmd/openapigen.
//
//go:embed openapi.yaml
var OpenAPI []byte
