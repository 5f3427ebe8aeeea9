"""The wire between a judge and a sandbox: messages, values, and the limits on both.

`channel` sends and receives frames of `messages`; `values` says what may be in them, which `packing` writes and
`unpacking` reads.
"""
