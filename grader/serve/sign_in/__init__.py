"""Signing in: at the `door`, with a token, at a university, or by a link of a learning platform.

`university` is the sign-in by OpenID Connect that a `sign_in_file` describes, `launch` that of LTI platforms,
and `handshakes` bind both to a browser. `selection` has what a link of a platform can open.
"""
