"""Points and comments sent to a platform's own interface, as `grade push` does.

`comparison` decides what differs and sends it, one student at a time; it declares what it needs of a platform.
`canvas`, `moodle` and `lti` are the platforms, and `client` speaks HTTP with them. `passback` is what a server
sends by itself.
"""
