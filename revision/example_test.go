package revision_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/revision"
)

// Both sides of `tollgate compare main`, built and ready to be measured.
func Example() {
	ctx := context.Background()
	repository, err := revision.Open(ctx, ".", revision.Options{})
	if err != nil {
		return
	}
	base, err := repository.Base(ctx, "main")
	if err != nil {
		return
	}
	worktree, err := repository.Checkout(ctx, base.Commit)
	if err != nil {
		return
	}
	defer worktree.Close()
	for side, dir := range map[string]string{"base": worktree.Path(repository.Prefix), "head": "."} {
		build := revision.Build{Side: side, Args: []string{"make"}, Dir: dir, Timeout: 30 * time.Minute}
		if err := build.Run(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	changes, err := repository.Changes(ctx, base.Commit, worktree.Dir)
	if err != nil {
		return
	}
	// For each location of each profile.
	functions := changes.Functions()
	functions.Add(revision.HeadSide, "parse", "/src/parse.c", 120)
	fmt.Println(functions.Touched("parse", "/src/parse.c"))
}
