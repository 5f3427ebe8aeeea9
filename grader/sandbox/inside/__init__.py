"""What runs in the sandbox, beside the student's code: the worker and what guards and warms it."""
