"""Signing in: at the `door`, with a token, at a university, or by a link of a learning platform.

`university` signs people in by OpenID Connect, with the rules of a `sign_in_file`, and `launch` by LTI. Both
bind their `handshakes` to a browser and check an `id_token`. `selection` lists the choices for a platform's
link, and `registration` lets a platform register itself.
"""
