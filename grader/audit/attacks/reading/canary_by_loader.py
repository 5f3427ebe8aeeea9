# attack: has the import system read a file for it | class: reading | canary: text
from importlib.machinery import SourceFileLoader

print(SourceFileLoader("secret", target.file).get_data(target.file).decode())
