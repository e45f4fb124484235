package api

// connectionMethods are about the connection itself, and so only on JSON-RPC.
var connectionMethods []method
