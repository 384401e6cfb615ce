"""HTTP below the wires: connections with time limits and retries (`connection`), server-sent events (`sse`)."""
