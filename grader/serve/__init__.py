"""A judge that answers everybody: an HTTP server over the judges, the gradebook, the policy and the report.

`app` has every route with its endpoint, and serves: `api` for programs, `pages` for people, and the `door`, at
which they sign in; `http` is what all of them send and read. `server` is all that is open for them: `identity`
says who asks, `roles` what staff may do and whom it reaches, `hand_in` reads what is handed in, `desk` takes it
in and keeps verdicts, `judging` has it judged, `views` are what the gradebook answers, each gradebook in one of
the `threads`, and so are the streams of events; `turns` says whose files are read next; `exercise` is what the
page to write in shows, and `practice` has its runs, with a queue of their own, from which `stuck` counts where
the class is; `drawing` draws plots for it; `exam` is the door to an exam; `staff_pages` are the pages in which
staff changes points, `staff` is what they show, and `claims` say with whom a file is; `passback` sends points
to platforms; `observing` has metrics and the log. The queue of hand-ins stands in `grader.gradebook.queue`.

`university` is the sign-in by OpenID Connect that a `sign_in_file` describes, `launch` that of LTI platforms,
and `handshakes` bind both to a browser. `selection` has what a link of a platform can open. `fetching` asks
other servers, without making a request wait for them.
"""

from grader.serve.app import serve
from grader.serve.server import Settings

__all__ = ["Settings", "serve"]
