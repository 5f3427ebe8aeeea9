"""What travels between a judge and a sandbox: messages, values, and the limits on both."""
