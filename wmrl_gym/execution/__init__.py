"""Running submissions for real: the sandbox, executors on this machine and on others, and the cache of results."""
