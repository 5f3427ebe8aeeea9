"""Mail to students: `mail_file` reads mail.toml, `letter` writes one mail, and `post` sends it by SMTP.

`class_mail` is the feedback of a class, as `grade mail` sends it. What a server mails by itself is in
`grader.serve.mailing`. Texts are made from disclosed entries, as those of every format for students.
"""
