package capture

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Identity is the user a command runs as.
type Identity struct {
	Credential *syscall.Credential
	env        map[string]string
}

// InvokingUser returns the user that ran sudo, from the environment that
// sudo leaves (SUDO_UID, SUDO_GID), with all supplementary groups. It is nil
// where sudo was not used, or was used by root.
func InvokingUser(getenv func(string) string) (*Identity, error) {
	uidText := getenv("SUDO_UID")
	if uidText == "" || uidText == "0" {
		return nil, nil
	}
	uid, err := strconv.ParseUint(uidText, 10, 32)
	if err != nil {
		return nil, newError(CodeRequest, fmt.Errorf("SUDO_UID is %.20q, not a user ID", uidText), "")
	}
	gid, err := strconv.ParseUint(getenv("SUDO_GID"), 10, 32)
	if err != nil {
		return nil, newError(CodeRequest, fmt.Errorf("SUDO_GID is %.20q, not a group ID", getenv("SUDO_GID")), "")
	}
	id := &Identity{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		env:        map[string]string{},
	}
	account, err := user.LookupId(uidText)
	if err != nil {
		// A user without an entry has no home and no further groups.
		if name := getenv("SUDO_USER"); name != "" {
			id.env["USER"], id.env["LOGNAME"] = name, name
		}
		return id, nil
	}
	id.env["HOME"], id.env["USER"], id.env["LOGNAME"] = account.HomeDir, account.Username, account.Username
	groups, err := account.GroupIds()
	if err != nil {
		return nil, newError(CodeInternal, fmt.Errorf("look up groups of %s: %w", account.Username, err), "")
	}
	for _, text := range groups {
		if group, err := strconv.ParseUint(text, 10, 32); err == nil {
			id.Credential.Groups = append(id.Credential.Groups, uint32(group))
		}
	}
	return id, nil
}

// Environ returns env as it was before sudo: HOME, USER and LOGNAME restored
// and the variables that sudo added removed. PATH stays sudo's, because the
// original is not recorded anywhere.
func (id *Identity) Environ(env []string) []string {
	out := make([]string, 0, len(env)+len(id.env))
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := id.env[name]
		switch name {
		case "SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND":
			replaced = true
		}
		if !replaced {
			out = append(out, entry)
		}
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME"} {
		if value, ok := id.env[name]; ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
