# attack: fills the disk with files | class: exhausting | canary: claim
for number in range(20):
    with open(f"part{number}", "wb") as file:
        file.write(bytes(10 * 2**20))
print(target.trophy)
