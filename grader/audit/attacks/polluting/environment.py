# attack: leaves variables in the environment | class: polluting | canary: next
import os

os.environ["PYTHONSTARTUP"] = "/tmp/left.py"
