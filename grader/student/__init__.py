"""A student's own folder: what is done in it, what to do next, and the pictures of it."""
