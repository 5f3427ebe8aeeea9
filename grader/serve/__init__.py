"""A judge that answers everybody: an HTTP server over the judges, the gradebook, the policy and the report.

`app` has every route with its endpoint, and serves: `api` for programs, `pages` and `staff_pages` for people;
`http` is what all of them send and read. `server` is all that is open for them. Who asks is known to
`identity`, with a token or after one of the ways to `sign_in`, and `roles` say what staff may do and whom it
reaches. `fetching` asks other servers, without making a request wait for them.

From a file to a verdict: `hand_in` reads what is handed in, whose `turns` it is; `desk` takes it in and keeps
verdicts, `judging` has it judged, and `views` are what the gradebook answers, each gradebook in one of the
`threads`, and so are the streams of events. The queue of hand-ins stands in `grader.gradebook.queue`.

The page to write in: `exercise` is what it shows, `practice` has its runs, with a queue of their own, from
which `stuck` counts where the class is, `drawing` draws plots, and `exam` is the door to an exam.

The pages for staff: `staff` is what they show, `extensions` gives students more time, `marks` marks files by a
rubric, and `claims` say who has which file. `exporting` writes files, and `regrading` judges again. `staff_api`
does the same for programs. `passback` sends points to platforms; `observing` has metrics and the log.
"""

from grader.serve.app import serve
from grader.serve.server import Settings

__all__ = ["Settings", "serve"]
