// Package rooms tests the whole repository. A room is a package, named by its path in the module.
//
// It holds packages to the rules of docs/architecture.md, by what they import and call; documents to working links; and
// texts to plain words. It contains tests only, and nothing imports it.
package rooms
