package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func environment(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestInvokingUserIsWhoRanSudo(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string // uid:gid, "" for nobody
		err  bool
	}{
		"no sudo":          {nil, "", false},
		"root ran sudo":    {map[string]string{"SUDO_UID": "0", "SUDO_GID": "0"}, "", false},
		"user":             {map[string]string{"SUDO_UID": "1234567", "SUDO_GID": "7654321", "SUDO_USER": "ann"}, "1234567:7654321", false},
		"not a number":     {map[string]string{"SUDO_UID": "ann", "SUDO_GID": "1"}, "", true},
		"negative":         {map[string]string{"SUDO_UID": "-1", "SUDO_GID": "1"}, "", true},
		"group is missing": {map[string]string{"SUDO_UID": "1234567"}, "", true},
	} {
		id, err := InvokingUser(environment(tt.env))
		got := ""
		if id != nil {
			got = fmt.Sprintf("%d:%d", id.Credential.Uid, id.Credential.Gid)
		}
		if got != tt.want || (err != nil) != tt.err {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

func TestEnvironmentIsRestored(t *testing.T) {
	id := &Identity{env: map[string]string{"HOME": "/home/ann", "USER": "ann", "LOGNAME": "ann"}}
	got := id.Environ([]string{
		"PATH=/usr/bin", "HOME=/root", "USER=root", "LOGNAME=root", "SUDO_UID=1000", "SUDO_GID=1000",
		"SUDO_USER=ann", "SUDO_COMMAND=/usr/bin/tollgate", "X=HOME=1",
	})
	want := []string{"PATH=/usr/bin", "X=HOME=1", "HOME=/home/ann", "USER=ann", "LOGNAME=ann"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommandRunsAsTheInvokingUser(t *testing.T) {
	needPrivileges(t)
	c := mustDialFake(t, "fake")
	id, err := InvokingUser(environment(map[string]string{"SUDO_UID": "1234567", "SUDO_GID": "7654321", "SUDO_USER": "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	id.Credential.Groups = []uint32{7654321, 55}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	_, err = c.Run(t.Context(), Command{
		Args: []string{"sh", "-c", `id -u; id -g; id -G; echo "$USER=$LOGNAME $SUDO_UID"`}, Dir: "/",
		Stdout: out, Identity: id, Env: append(os.Environ(), "SUDO_UID=1234567", "USER=root"),
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if want := []string{"1234567", "7654321", "7654321 55", "ann=ann "}; !slices.Equal(lines, want) {
		t.Errorf("command saw %q, want %q", lines, want)
	}
}
