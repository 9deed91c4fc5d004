package mcp

// TargetsOf are the servers of a model that somebody names.
var TargetsOf = targetsOf
