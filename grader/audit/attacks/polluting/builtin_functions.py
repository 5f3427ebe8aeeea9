# attack: leaves another print behind | class: polluting | canary: next
import builtins

kept = builtins.print
builtins.print = lambda *given, **rest: kept(*given, **rest)
