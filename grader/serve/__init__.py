"""An HTTP server over the judges and the gradebook: students hand in, and staff read and mark.

Requests. `app` maps every route to its endpoint: in `api` for programs, in `pages` and `staff_pages` for
people. `http` reads bodies and makes answers, and `server` holds the parts that endpoints use. `identity` finds
the person behind a request, by a token or a `sign_in`; `roles` has the rights of staff. `fetching` makes
requests to other servers.

From a file to a verdict. Students take `turns`; `hand_in` reads the files, `desk` keeps them and their
verdicts, `judging` has them judged, `views` answers from the gradebook, and `summary` has the whole class at a
glance. `threads` has the threads of gradebooks and the streams of events. The queue of jobs is in
`grader.gradebook.queue`.

The editor. `exercise` has the texts of its page, `practice` the queue of practice runs, `stuck` the exercises
where the class is stuck, and `drawing` the plots.

A term. `gate` decides which exercises students have now, and enforces the rules of exams; `teams` has the teams
of the class list.

Staff. `staff` has the data of their pages, `staff_desk` keeps their changes, `extensions` has more time for
students, `marks` the marking by a rubric, and `claims` the files that people are marking. `exporting` writes
files, `regrading` judges again, and `staff_api` does the same for programs, whose requests and answers are in
`messages`. `passback` sends points to platforms, and `mailing` sends students the `letters` about their work.
`backups` copies the gradebook on schedule; `observing` has metrics and the log.
"""
