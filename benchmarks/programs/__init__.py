"""The measured programs. Each runs in a process of its own, gets a task as JSON and prints its result as JSON."""
