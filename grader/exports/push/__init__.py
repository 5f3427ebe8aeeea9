"""Points and comments sent to a platform's own interface, as `grade push` does.

`comparison` finds the differences and sends them, one student at a time, through its protocol `Platform`.
`canvas`, `moodle` and `lti` implement it, and `client` makes their HTTP requests. `passback` is for a server
that sends by itself.
"""
