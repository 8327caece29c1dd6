"""Who asks and what it may do: users, logins, ACLs, quotas (`docs/spec/security.md`)."""
