"""Mail to students: `mail_file` reads mail.toml, `letter` writes one mail, and `post` sends it by SMTP.

`class_mail` sends a class its feedback, for `grade mail`; `grader.serve.mailing` is the mail of a server. All
texts are made from disclosed entries.
"""
