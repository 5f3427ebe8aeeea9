"""Mail to students: `mail_file` reads mail.toml, `letter` writes one mail, and `post` sends it by SMTP.

`class_mail` sends a class its feedback, for `grade mail`; `grader.serve.mailing` sends a server's mail. Texts
are made only from disclosed entries.
"""
