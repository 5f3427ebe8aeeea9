# attack: reads a file through the import system | class: reading | canary: text
from importlib.machinery import SourceFileLoader

print(SourceFileLoader("secret", target.file).get_data(target.file).decode())
