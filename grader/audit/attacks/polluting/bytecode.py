# attack: leaves bytecode beside the grader's own | class: polluting | canary: remains
import os

import grader.sandbox

folder = os.path.dirname(os.path.dirname(grader.sandbox.__file__)) + "/__pycache__"
with open(f"{folder}/{target.mark}.pyc", "wb") as file:
    file.write(b"left")
