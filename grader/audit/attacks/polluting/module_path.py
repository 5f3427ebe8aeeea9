# attack: leaves a folder of its own on the module path | class: polluting | canary: next
import sys

sys.path.insert(0, "/tmp/attack")
