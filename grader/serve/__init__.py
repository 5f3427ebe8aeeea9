"""A judge that answers everybody: an HTTP server over the judges, the gradebook, the policy and the report.

`running` starts it, `app` has every route with its endpoint: `api` for programs, `pages` for people,
`requests` for regrade requests. `identity` says who asks (`github` reads the word of a workflow), `hand_in`
reads what is handed in, `desk` takes it in and keeps verdicts, `judging` has it judged. `views` and
`class_summary` are what the gradebook answers, each gradebook in one of the `threads`; `hub` has the streams
of events, `observing` metrics and the log. A `refusal` is what a client did wrong, `openapi` describes the
interface. The queue itself stands in `grader.gradebook.queue`.
"""

from grader.serve.app import Settings
from grader.serve.running import serve

__all__ = ["Settings", "serve"]
