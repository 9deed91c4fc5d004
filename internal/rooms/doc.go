// Package rooms holds no code but its test: the rules between the packages of
// this module, as docs/architecture.md gives them, checked against what the
// packages import and call. Nothing imports it.
package rooms
