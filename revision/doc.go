// Package revision is the git side of comparing two states of a repository:
// the merge base with a revision, a temporary worktree of it, the builds of
// both sides, and which functions the change between them touches.
//
// It uses the git command line (2.31 or newer) with the user's configuration.
// It leaves the working tree, the index, the stash and the configuration of
// the repository alone, runs none of its hooks, and may be used by any number
// of processes at once.
package revision
