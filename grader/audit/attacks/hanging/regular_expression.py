# attack: runs a regular expression that backtracks for ever | class: hanging | canary: time
import re

re.match(r"(a+)+$", "a" * 40 + "b")
