"""Who a client is and what it may do: listeners, authentication, ACLs, users, quotas."""
