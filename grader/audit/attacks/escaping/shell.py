# attack: has a shell write into the user's file | class: escaping | canary: file
import subprocess

subprocess.run(["/bin/sh", "-c", f"echo changed > {target.file}"], check=True)
