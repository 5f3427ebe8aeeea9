"""The wire between a judge and a sandbox: messages, values, and the limits on both.

`channel` sends and receives frames of `messages`. `values` defines the values in them, `packing` writes these,
and `unpacking` reads them.
"""
